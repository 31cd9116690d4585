package registry_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

func newPool(t testing.TB, n int, cfg registry.PoolConfig) *registry.Pool {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "test"
	}
	p, err := registry.NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := p.Add(registry.ReplicaConfig{Name: fmt.Sprint(i), URL: fmt.Sprintf("http://10.0.0.%d:8000", i+1)}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func at(d time.Duration) time.Time { return t0.Add(d) }

const sec = time.Second

func wantRoutable(t *testing.T, r *registry.Replica, after time.Duration, want bool) {
	t.Helper()
	if got := r.Routable(at(after)); got != want {
		t.Errorf("after %v: Routable = %v, want %v", after, got, want)
	}
}

func fail(r *registry.Replica, n int, after time.Duration) {
	for range n {
		r.Failed(at(after))
	}
}

func TestConsecutiveFailuresEject(t *testing.T) {
	r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	fail(r, 2, 0)
	r.Succeeded(at(0))
	fail(r, 2, 0)
	wantRoutable(t, r, 0, true)
	if got, last := r.Failures(); got != 2 || !last.Equal(t0) {
		t.Errorf("Failures = %d, last at %v, want 2 at %v: a success starts the count anew", got, last, t0)
	}
	fail(r, 1, sec)
	wantRoutable(t, r, sec, false)
	if why, out := r.Ejected(); !out || why != registry.ByFailures {
		t.Errorf("Ejected = %q, %v, want %q, true", why, out, registry.ByFailures)
	}
	if _, ok := r.LeaseAt(registry.Claim{}, at(2*sec)); ok {
		t.Error("an ejected replica granted a lease")
	}
	wantRoutable(t, r, 11*sec-1, false)
	wantRoutable(t, r, 11*sec, true)
}

func TestTrialIsOneRequest(t *testing.T) {
	r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	fail(r, 3, 0)
	trial, ok := r.LeaseAt(registry.Claim{KV: 1}, at(10*sec))
	if !ok {
		t.Fatal("no trial after the pause")
	}
	wantRoutable(t, r, 10*sec, false)
	if _, ok := r.LeaseAt(registry.Claim{KV: 1}, at(10*sec)); ok {
		t.Error("a second trial was granted")
	}
	trial.Release() // the client left: neither success nor failure
	if _, out := r.Ejected(); !out {
		t.Error("a trial without an outcome readmitted the replica")
	}
	trial, ok = r.LeaseAt(registry.Claim{KV: 1}, at(11*sec))
	if !ok {
		t.Fatal("no new trial after one without an outcome")
	}
	trial.Succeeded(at(12 * sec))
	trial.Release()
	wantRoutable(t, r, 12*sec, true)
	if _, out := r.Ejected(); out {
		t.Error("a successful trial did not readmit the replica")
	}
}

func TestFailedTrialDoublesThePause(t *testing.T) {
	for _, release := range []string{"before", "after"} {
		t.Run("released "+release, func(t *testing.T) {
			r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
			fail(r, 3, 0)
			now := time.Duration(0)
			for _, pause := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
				wantRoutable(t, r, now+pause*sec-1, false)
				now += pause * sec
				trial, ok := r.LeaseAt(registry.Claim{}, at(now))
				if !ok {
					t.Fatalf("no trial after a pause of %ds", pause)
				}
				if release == "before" {
					trial.Release()
					r.Failed(at(now))
				} else {
					r.Failed(at(now))
					trial.Release()
				}
			}
		})
	}
}

func TestPausesStartAnewAfterALongHealthyTime(t *testing.T) {
	r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	back := func(after time.Duration) {
		t.Helper()
		l, ok := r.LeaseAt(registry.Claim{}, at(after))
		if !ok {
			t.Fatalf("after %v: no trial", after)
		}
		l.Succeeded(at(after))
		l.Release()
	}
	fail(r, 3, 0)
	back(10 * sec)
	fail(r, 3, 20*sec) // soon again: twice as long
	wantRoutable(t, r, 40*sec-1, false)
	back(40 * sec)
	fail(r, 3, 40*sec+5*time.Minute) // healthy for five minutes: as at first
	wantRoutable(t, r, 50*sec+5*time.Minute-1, false)
	wantRoutable(t, r, 50*sec+5*time.Minute, true)
}

func TestLateOutcomesOfOldRequestsDoNotCount(t *testing.T) {
	r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	fail(r, 3, 0)
	fail(r, 20, 5*sec)       // requests sent before the ejection
	r.Succeeded(at(6 * sec)) // a stream that still lives
	wantRoutable(t, r, 10*sec-1, false)
	wantRoutable(t, r, 10*sec, true)
	r.Succeeded(at(11 * sec)) // no trial was let through yet
	if _, out := r.Ejected(); !out {
		t.Error("an old stream's success readmitted the replica without a trial")
	}
}

// TestOnlyTheTrialReadmits: whatever else is answered while it is out.
func TestOnlyTheTrialReadmits(t *testing.T) {
	r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	before := lease(t, r, registry.Claim{}, 0)
	fail(r, 3, 0)
	trial := lease(t, r, registry.Claim{}, 10*sec)
	if !trial.Trial() {
		t.Fatal("no trial after the pause")
	}
	r.Succeeded(at(11 * sec))
	before.Succeeded(at(11 * sec))
	if _, out := r.Ejected(); !out {
		t.Error("readmitted by a request that was sent before the ejection")
	}
	r.Failed(at(12 * sec)) // another such request: the pause begins anew
	trial.Succeeded(at(13 * sec))
	if _, out := r.Ejected(); out {
		t.Error("still ejected after its trial has succeeded")
	}
}

// TestTrialOfAnEarlierEjection: it neither keeps the next one from coming nor
// has a say in it.
func TestTrialOfAnEarlierEjection(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(p *registry.Pool, r *registry.Replica)
	}{
		{"the engine restarts", func(_ *registry.Pool, r *registry.Replica) { r.Restarted() }},
		{"readmitted as the last member, and ejected again", func(p *registry.Pool, r *registry.Replica) {
			other := p.Replicas()[1]
			other.Drain()
			if _, out := r.Ejected(); out {
				t.Fatal("not readmitted as the last member")
			}
			other.Resume()
			fail(r, 3, 20*sec)
		}},
	} {
		p := newPool(t, 2, registry.PoolConfig{})
		r := p.Replicas()[0]
		fail(r, 3, 0)
		old := lease(t, r, registry.Claim{}, 10*sec)
		tt.end(p, r)
		next := lease(t, r, registry.Claim{}, 100*sec)
		if !old.Trial() || !next.Trial() {
			t.Fatalf("%s: Trial = %v, then %v; want both", tt.name, old.Trial(), next.Trial())
		}
		old.Succeeded(at(101 * sec))
		old.Release()
		if _, out := r.Ejected(); !out {
			t.Errorf("%s: readmitted by the trial of before", tt.name)
		}
		wantRoutable(t, r, 101*sec, false) // the next one is out
		next.Succeeded(at(102 * sec))
		if _, out := r.Ejected(); out {
			t.Errorf("%s: still ejected after its trial has succeeded", tt.name)
		}
	}
}

func TestNeverMoreThanHalfIsEjected(t *testing.T) {
	for n, most := range []int{0, 0, 1, 1, 2, 2, 3, 3, 4} {
		p := newPool(t, n, registry.PoolConfig{})
		for _, r := range p.Replicas() {
			fail(r, 10, 0)
			for i := range 10 {
				r.SetProbe(false, at(time.Duration(i)*sec))
			}
		}
		out := 0
		for _, r := range p.Replicas() {
			if _, ejected := r.Ejected(); ejected {
				out++
			}
		}
		if out != most {
			t.Errorf("pool of %d: %d ejected, want %d", n, out, most)
		}
	}
}

func TestLastServingReplicaIsNotEjected(t *testing.T) {
	p := newPool(t, 3, registry.PoolConfig{})
	rs := p.Replicas()
	rs[0].Drain()
	rs[1].Report(registry.State{At: t0, Asleep: true})
	wantRoutable(t, rs[0], 0, false)
	wantRoutable(t, rs[1], 0, false)
	fail(rs[2], 10, 0)
	wantRoutable(t, rs[2], 0, true)
	rs[0].Resume()
	fail(rs[2], 1, 0)
	wantRoutable(t, rs[0], 0, true)
	wantRoutable(t, rs[2], 0, false)
	rs[0].Drain() // the ejected one is now all there is
	wantRoutable(t, rs[2], 0, true)
}

func TestRemovalReadmitsBeyondTheCap(t *testing.T) {
	p := newPool(t, 4, registry.PoolConfig{})
	rs := p.Replicas()
	fail(rs[0], 3, sec)
	fail(rs[1], 3, 0)
	p.Remove(rs[2])
	wantRoutable(t, rs[1], sec, true) // two of three were out: the one ejected first returns
	wantRoutable(t, rs[0], sec, false)
	p.Remove(rs[3])
	wantRoutable(t, rs[0], sec, false)
	p.Remove(rs[1])
	wantRoutable(t, rs[0], sec, true) // never all
	wantRoutable(t, rs[3], sec, false)
}

func TestProbeMisses(t *testing.T) {
	p := newPool(t, 4, registry.PoolConfig{})
	r := p.Replicas()[0]
	r.SetProbe(false, at(0))
	r.SetProbe(false, at(sec))
	r.SetProbe(true, at(2*sec))
	r.SetProbe(false, at(3*sec))
	r.SetProbe(false, at(4*sec))
	wantRoutable(t, r, 4*sec, true)
	r.SetProbe(false, at(5*sec))
	wantRoutable(t, r, 5*sec, false)
	if why, _ := r.Ejected(); why != registry.ByProbe {
		t.Errorf("reason = %q, want %q", why, registry.ByProbe)
	}
	r.SetProbe(true, at(6*sec)) // at most one change a minute
	wantRoutable(t, r, 64*sec, false)
	wantRoutable(t, r, 65*sec, true)
	r.SetProbe(false, at(66*sec))
	r.SetProbe(false, at(67*sec))
	r.SetProbe(false, at(68*sec))
	wantRoutable(t, r, 68*sec, false) // still down: not even a trial
	r.SetProbe(true, at(69*sec))
	l, ok := r.LeaseAt(registry.Claim{}, at(69*sec))
	if !ok {
		t.Fatal("no trial though the probe succeeds")
	}
	l.Succeeded(at(70 * sec))
	l.Release()
	for i := range 5 {
		r.SetProbe(false, at(76*sec+time.Duration(i)*sec))
		wantRoutable(t, r, 80*sec, true) // changed at 70 s: three are too few
	}
	r.SetProbe(false, at(81*sec))
	wantRoutable(t, r, 81*sec, false)
	if why, _ := r.Ejected(); why != registry.ByProbe {
		t.Errorf("reason = %q, want %q", why, registry.ByProbe)
	}
}

// TestProbeMissesAfterTheDwell: a minute after the last change three are enough.
func TestProbeMissesAfterTheDwell(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration // the last change
		out   bool
	}{{50 * sec, false}, {60 * sec, true}} {
		r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
		fail(r, 3, 0)
		l, ok := r.LeaseAt(registry.Claim{}, at(100*sec))
		if !ok {
			t.Fatal("no trial")
		}
		l.Succeeded(at(100 * sec))
		for range 3 {
			r.SetProbe(false, at(100*sec+tt.after))
		}
		if _, out := r.Ejected(); out != tt.out {
			t.Errorf("%v after it was back: ejected %t, want %t", tt.after, out, tt.out)
		}
	}
}

// TestOneThatHasRecoveredGivesWay: a member whose pause is not over, but that shows
// life again, uses nothing up of what may be ejected; one that does not, does.
func TestOneThatHasRecoveredGivesWay(t *testing.T) {
	probes := func(r *registry.Replica, at time.Time) {
		for range 3 {
			r.SetProbe(false, at)
		}
	}
	frozen := func(r *registry.Replica) {
		for now := 10 * sec; now <= 16*sec; now += sec {
			r.Report(registry.State{At: at(now), Steps: 7, Running: 1})
		}
	}
	for _, tt := range []struct {
		name  string
		act   func(first *registry.Replica)
		gives bool
	}{
		{"probes that still fail", func(r *registry.Replica) { probes(r, at(10*sec)) }, false},
		{"a probe that is answered", func(r *registry.Replica) { probes(r, at(10*sec)); r.SetProbe(true, at(17*sec)) }, true},
		{"and one that is not", func(r *registry.Replica) {
			probes(r, at(10*sec))
			r.SetProbe(true, at(17*sec))
			r.SetProbe(false, at(18*sec))
		}, false},
		{"probes that nobody sends any more", func(r *registry.Replica) { probes(r, at(10*sec)); r.Unwatched() }, false},
		{"a freeze", frozen, false},
		{"a freeze that nobody watched for a while", func(r *registry.Replica) {
			frozen(r)
			r.Unwatched()
			r.Report(registry.State{At: at(17 * sec), Steps: 7, Running: 1})
		}, false},
		{"a freeze without work any more", func(r *registry.Replica) {
			frozen(r)
			r.Report(registry.State{At: at(17 * sec), Steps: 7})
		}, false},
		{"a step", func(r *registry.Replica) {
			frozen(r)
			r.Report(registry.State{At: at(17 * sec), Steps: 8, Running: 1})
		}, true},
		{"a probe that is answered where the engine stands still", func(r *registry.Replica) {
			probes(r, at(10*sec))
			frozen(r)
			r.SetProbe(true, at(17*sec))
		}, false},
		{"failures", func(r *registry.Replica) { fail(r, 3, 12*sec); r.SetProbe(true, at(17*sec)) }, false},
		{"drained", func(r *registry.Replica) { probes(r, at(10*sec)); r.SetProbe(true, at(17*sec)); r.Drain() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, 3, registry.PoolConfig{})
			first, second := p.Replicas()[0], p.Replicas()[1]
			tt.act(first)
			if _, out := first.Ejected(); !out {
				t.Fatal("the first is not ejected")
			}
			var told []string
			p.OnHealth(func(r *registry.Replica, ejected bool, _ registry.Reason) {
				told = append(told, fmt.Sprint(r.Slot(), ejected))
			})
			probes(second, at(20*sec))
			wantRoutable(t, first, 20*sec, tt.gives)
			wantRoutable(t, second, 20*sec, !tt.gives)
			if want := map[bool]string{true: "[0 false 1 true]", false: "[]"}[tt.gives]; fmt.Sprint(told) != want {
				t.Errorf("told %v, want %s", told, want)
			}
		})
	}
}

// TestFailedTrialIsNoLife: a probe or a step from before a trial that failed does
// not bring the replica back in another's place. One that comes after it does.
func TestFailedTrialIsNoLife(t *testing.T) {
	probes := func(r *registry.Replica, now time.Duration, ok ...bool) {
		for _, ok := range ok {
			r.SetProbe(ok, at(now))
		}
	}
	step := func(r *registry.Replica, now time.Duration, steps uint64) {
		r.Report(registry.State{At: at(now), Steps: steps, Running: 1})
	}
	for _, tt := range []struct {
		name   string
		eject  func(r *registry.Replica)
		after  func(r *registry.Replica) // the trial
		gives  bool
		reason registry.Reason
	}{
		{"a probe before", func(r *registry.Replica) { probes(r, 0, false, false, false, true) }, func(*registry.Replica) {}, false, registry.ByProbe},
		{"a probe before and one after", func(r *registry.Replica) { probes(r, 0, false, false, false, true) },
			func(r *registry.Replica) { probes(r, 62*sec, true) }, false, registry.ByProbe},
		{"probes that fail after, and then do not", func(r *registry.Replica) { probes(r, 0, false, false, false, true) },
			func(r *registry.Replica) { probes(r, 62*sec, false, true) }, true, registry.ByProbe},
		{"a step before", func(r *registry.Replica) { step(r, 0, 7); step(r, 5*sec, 7); step(r, 6*sec, 8) }, func(*registry.Replica) {}, false, registry.ByFreeze},
		{"a step after", func(r *registry.Replica) { step(r, 0, 7); step(r, 5*sec, 7) },
			func(r *registry.Replica) { step(r, 62*sec, 8) }, true, registry.ByFreeze},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, 2, registry.PoolConfig{})
			first, second := p.Replicas()[0], p.Replicas()[1]
			tt.eject(first)
			l, ok := first.LeaseAt(registry.Claim{}, at(60*sec))
			if why, _ := first.Ejected(); why != tt.reason || !ok || !l.Trial() {
				t.Fatalf("ejected by %q, lease %t, a trial %t; want %q and a trial", why, ok, l.Trial(), tt.reason)
			}
			first.Failed(at(61 * sec))
			l.Release()
			tt.after(first)
			fail(second, 3, 63*sec)
			wantRoutable(t, first, 63*sec, tt.gives)
			wantRoutable(t, second, 63*sec, !tt.gives)
		})
	}
}

func TestBusyIsNotDead(t *testing.T) {
	r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	for i := range 60 {
		now := at(time.Duration(i) * sec)
		if i%4 == 0 {
			r.Progress(now) // a token of one of its streams
		}
		r.SetProbe(false, now)
		wantRoutable(t, r, time.Duration(i)*sec, true)
	}
	steps := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	for i := range 60 {
		now := at(time.Duration(i) * sec)
		steps.Report(registry.State{At: now, Running: 40, Steps: uint64(10 + i)})
		steps.SetProbe(false, now)
		wantRoutable(t, steps, time.Duration(i)*sec, true)
	}
}

func TestFrozenEngineIsEjected(t *testing.T) {
	report := func(r *registry.Replica, i, running int, steps uint64) {
		r.Report(registry.State{At: at(time.Duration(i) * sec), Running: running, Steps: steps})
	}
	p := newPool(t, 4, registry.PoolConfig{})
	frozen, idle, moving := p.Replicas()[0], p.Replicas()[1], p.Replicas()[2]
	for i := range 10 {
		report(frozen, i, 3, 100)
		report(idle, i, 0, 100)
		report(moving, i, 3, 100+uint64(i/3))
		wantRoutable(t, frozen, time.Duration(i)*sec, i < 5)
		wantRoutable(t, idle, time.Duration(i)*sec, true)
		wantRoutable(t, moving, time.Duration(i)*sec, true)
	}
	if why, _ := frozen.Ejected(); why != registry.ByFreeze {
		t.Errorf("reason = %q, want %q", why, registry.ByFreeze)
	}
	report(frozen, 11, 3, 101)
	wantRoutable(t, frozen, 12*sec, false) // it moves, but comes back by trial only
	wantRoutable(t, frozen, 15*sec, true)
	if _, out := frozen.Ejected(); !out {
		t.Error("a frozen engine was readmitted without a trial")
	}
}

func TestReadmissionIsAChange(t *testing.T) {
	p := newPool(t, 4, registry.PoolConfig{})
	changes := 0
	p.OnChange(func() { changes++ })
	r := p.Replicas()[0]
	fail(r, 3, 0)
	l, _ := r.LeaseAt(registry.Claim{}, at(10*sec))
	before := changes
	l.Succeeded(at(10 * sec))
	if changes != before+1 {
		t.Errorf("%d calls of OnChange at readmission, want 1", changes-before)
	}
	l.Release()
	if changes != before+2 {
		t.Errorf("%d calls of OnChange after the release, want 2", changes-before)
	}
}

// TestLastServingReplicaFallsAsleep: those that are ejected are better than none.
func TestLastServingReplicaFallsAsleep(t *testing.T) {
	p := newPool(t, 4, registry.PoolConfig{})
	told, stop := heard(p)
	defer stop()
	rs := p.Replicas()
	fail(rs[0], 3, sec)
	fail(rs[1], 3, 0)
	rs[2].Report(registry.State{At: at(sec), Asleep: true})
	wantRoutable(t, rs[0], sec, false)
	wantRoutable(t, rs[1], sec, false)
	for i := range 2 {
		rs[3].Report(registry.State{At: at(2*sec + time.Duration(i)), Asleep: true})
	}
	wantRoutable(t, rs[0], 2*sec, false)
	wantRoutable(t, rs[1], 2*sec, true) // its pause ends first
	if want := []string{"0 out failures", "1 out failures", "1 back failures"}; !slices.Equal(*told, want) {
		t.Errorf("told %q, want %q", *told, want)
	}
}
