package registry_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// TestGivenUp: an ejected replica is given up once its probes fail or its engine
// stands still, whatever it was ejected for, and until it shows life.
func TestGivenUp(t *testing.T) {
	frozen := func(r *registry.Replica, from, to time.Duration) {
		for now := from; now <= to; now += sec {
			r.Report(registry.State{At: at(now), Steps: 7, Running: 1})
		}
	}
	probes := func(r *registry.Replica, after time.Duration) {
		for range 3 {
			r.SetProbe(false, at(after))
		}
	}
	for _, tt := range []struct {
		name string
		act  func(r *registry.Replica)
		want bool
	}{
		{"nothing", func(*registry.Replica) {}, false},
		{"failures", func(r *registry.Replica) { fail(r, 3, sec) }, false},
		{"probes", func(r *registry.Replica) { probes(r, 10*sec) }, true},
		{"two probes", func(r *registry.Replica) { r.SetProbe(false, at(sec)); r.SetProbe(false, at(2*sec)) }, false},
		{"a freeze", func(r *registry.Replica) { frozen(r, 0, 6*sec) }, true},
		{"failures, then probes", func(r *registry.Replica) { fail(r, 3, sec); probes(r, 10*sec) }, true},
		{"failures, then a freeze", func(r *registry.Replica) { fail(r, 3, 0); frozen(r, 0, 6*sec) }, true},
		{"a probe that is answered", func(r *registry.Replica) { probes(r, 10*sec); r.SetProbe(true, at(11*sec)) }, false},
		{"a freeze whose probes are answered", func(r *registry.Replica) { frozen(r, 0, 6*sec); r.SetProbe(true, at(7*sec)) }, true},
		{"a step", func(r *registry.Replica) {
			frozen(r, 0, 6*sec)
			r.Report(registry.State{At: at(7 * sec), Steps: 8, Running: 1})
		}, false},
		{"a restart", func(r *registry.Replica) { probes(r, 10*sec); r.Restarted() }, false},
	} {
		r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
		if tt.act(r); r.GivenUp() != tt.want {
			t.Errorf("%s: GivenUp = %v, want %v", tt.name, r.GivenUp(), tt.want)
		}
	}
	alone := newPool(t, 1, registry.PoolConfig{}).Replicas()[0]
	if frozen(alone, 0, 9*sec); alone.GivenUp() {
		t.Error("the only replica is given up")
	}
}

func TestLeaseOnTrial(t *testing.T) {
	r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	usual, ok := r.LeaseAt(registry.Claim{}, at(0))
	if !ok || usual.Trial() {
		t.Errorf("LeaseAt = %v; want a lease that is no trial", ok)
	}
	fail(r, 3, 0)
	trial, ok := r.LeaseAt(registry.Claim{}, at(time.Minute))
	if !ok || !trial.Trial() || usual.Trial() {
		t.Errorf("LeaseAt = %v after the pause; want the trial", ok)
	}
	trial.Release()
	if trial.Trial() {
		t.Error("a lease that is over is a trial")
	}
}
