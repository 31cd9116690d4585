package registry_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// TestUnwatched: what only a probe or a report could take back does not keep a
// replica out once there are none any more.
func TestUnwatched(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(r *registry.Replica)
		from time.Duration // when it is routable
	}{
		{"probes", func(r *registry.Replica) {
			for range 3 {
				r.SetProbe(false, at(10*sec))
			}
		}, 70 * sec},
		{"a freeze", func(r *registry.Replica) {
			for now := time.Duration(0); now <= 6*sec; now += sec {
				r.Report(registry.State{At: at(now), Steps: 7, Running: 1})
			}
		}, 15 * sec},
		{"failures", func(r *registry.Replica) { fail(r, 3, sec) }, 11 * sec},
		{"sleep", func(r *registry.Replica) { r.Report(registry.State{At: at(0), Asleep: true}) }, 0},
		{"nothing", func(*registry.Replica) {}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, 4, registry.PoolConfig{})
			r := p.Replicas()[0]
			tt.act(r)
			changes := 0
			defer p.OnChange(func() { changes++ })()
			r.Unwatched()
			if changes != 1 {
				t.Errorf("told of %d changes, want 1", changes)
			}
			if r.GivenUp() {
				t.Error("given up by what nobody can take back")
			}
			if wantRoutable(t, r, tt.from, true); tt.from > 0 {
				wantRoutable(t, r, tt.from-1, false)
			}
			l, ok := r.LeaseAt(registry.Claim{}, at(tt.from))
			if _, out := r.Ejected(); !ok || l.Trial() != out {
				t.Fatalf("LeaseAt = %t, a trial %t, ejected %t; want a lease, which is a trial if it is ejected", ok, l.Trial(), out)
			}
			l.Succeeded(at(tt.from))
			if why, out := r.Ejected(); out {
				t.Errorf("ejected (%s) after a success", why)
			}
		})
	}
}

// TestUnwatchedCountsAnew: a probe that was missed long ago is none of a row.
func TestUnwatchedCountsAnew(t *testing.T) {
	r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	r.SetProbe(false, at(10*sec))
	r.SetProbe(false, at(11*sec))
	r.Unwatched()
	r.SetProbe(false, at(time.Hour))
	r.SetProbe(false, at(time.Hour+sec))
	wantRoutable(t, r, time.Hour+sec, true)
	r.SetProbe(false, at(time.Hour+2*sec))
	wantRoutable(t, r, time.Hour+2*sec, false)
}
