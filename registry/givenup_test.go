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

// TestTokensEndAStandstill: what a replica did while the pool could not spare it
// is forgotten when tokens come again, though its counter stands still.
func TestTokensEndAStandstill(t *testing.T) {
	p := newPool(t, 4, registry.PoolConfig{})
	r, others := p.Replicas()[0], p.Replicas()[1:]
	fail(others[0], 3, 0)
	fail(others[1], 3, 0)
	lease(t, r, registry.Claim{}, 0)
	for i := range 7 {
		r.Report(registry.State{At: at(time.Duration(i) * sec), Steps: 7, Running: 1})
	}
	for i := 7; i <= 20; i++ {
		r.Progress(at(time.Duration(i) * sec))
		r.Report(registry.State{At: at(time.Duration(i) * sec), Steps: 7, Running: 1})
	}
	trial := lease(t, others[0], registry.Claim{}, 20*sec)
	trial.Succeeded(at(20 * sec))
	fail(r, 3, 20*sec)
	if why, out := r.Ejected(); !out || why != registry.ByFailures || r.GivenUp() {
		t.Errorf("Ejected = %q, %v, GivenUp = %v; want it ejected for its failures and not given up", why, out, r.GivenUp())
	}
}

// TestGivenUpUntilNobodyWaits: requests that leave one after the other do not hide
// from the last that the engine stands still.
func TestGivenUpUntilNobodyWaits(t *testing.T) {
	r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	first := lease(t, r, registry.Claim{}, 0)
	media := lease(t, r, registry.Claim{Media: true}, 0)
	report := func(i int) {
		r.Report(registry.State{At: at(time.Duration(i) * sec), Steps: 7})
	}
	for i := range 11 {
		report(i)
	}
	first.Release()
	if report(11); !r.GivenUp() || !media.GivenUp(at(11*sec)) {
		t.Error("not given up while a request still waits for its first token")
	}
	media.Release()
	if report(12); r.GivenUp() {
		t.Error("given up though there is nothing for it to do")
	}
}

// TestTokenCountersAreProgress: an engine that shows no step counter, but that it
// computes tokens, is busy and not dead.
func TestTokenCountersAreProgress(t *testing.T) {
	for _, tt := range []struct {
		name   string
		report func(i int) registry.State
		want   bool
	}{
		{"generated", func(i int) registry.State { return registry.State{GeneratedTokens: float64(50 * i)} }, false},
		{"prompt", func(i int) registry.State { return registry.State{PromptTokens: float64(50 * i)} }, false},
		{"none", func(int) registry.State { return registry.State{GeneratedTokens: 50, PromptTokens: 50} }, true},
	} {
		r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
		for i := range 20 {
			s := tt.report(i)
			s.At, s.Running = at(time.Duration(i)*sec), 1
			r.Report(s)
			r.SetProbe(i < 10, s.At)
		}
		if _, out := r.Ejected(); out != tt.want || r.GivenUp() != tt.want {
			t.Errorf("%s: ejected %v, given up %v; want %v", tt.name, out, r.GivenUp(), tt.want)
		}
	}
}

// TestGivenUpAfterItLeft: a replica that stood still and could not be ejected, or
// does so after it has left the pool, is given up once it is no member.
func TestGivenUpAfterItLeft(t *testing.T) {
	for name, act := range map[string]func(r *registry.Replica){
		"a freeze": func(r *registry.Replica) {
			for i := range 7 {
				r.Report(registry.State{At: at(time.Duration(i) * sec), Steps: 7, Running: 1})
			}
		},
		"probes": func(r *registry.Replica) {
			for range 3 {
				r.SetProbe(false, at(10*sec))
			}
		},
	} {
		p := newPool(t, 1, registry.PoolConfig{})
		r := p.Replicas()[0]
		if act(r); r.GivenUp() {
			t.Errorf("%s: the only replica is given up", name)
		}
		wantRoutable(t, r, 10*sec, true)
		if p.Remove(r); !r.GivenUp() {
			t.Errorf("%s: not given up though it is no member any more", name)
		}
		p = newPool(t, 4, registry.PoolConfig{})
		r = p.Replicas()[0]
		if p.Remove(r); r.GivenUp() {
			t.Errorf("%s: given up for leaving only", name)
		}
		if act(r); !r.GivenUp() {
			t.Errorf("%s: not given up for what was seen after it left", name)
		}
		p = newPool(t, 1, registry.PoolConfig{})
		r = p.Replicas()[0]
		act(r)
		r.Progress(at(11 * sec))
		r.Report(registry.State{At: at(12 * sec), Steps: 7, Running: 1})
		r.SetProbe(false, at(12*sec))
		if p.Remove(r); r.GivenUp() {
			t.Errorf("%s: given up though a token came just now", name)
		}
	}
}
