package registry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// TestFreezeIsWorkWithoutStepOrToken: the engine is looked at twice a second,
// and its gauges may say nothing of the requests it holds.
func TestFreezeIsWorkWithoutStepOrToken(t *testing.T) {
	const never = -1
	tests := []struct {
		name string
		// at the i-th half second; hold keeps n requests on the ledger
		report func(i int) registry.State
		hold   func(i int) int
		token  func(i int) bool
		claim  registry.Claim // of each lease
		first  bool           // each has its first token at once
		want   int            // the half second at which it is ejected
	}{
		{name: "froze while idle", hold: from(4), report: steps(100), want: 19},
		{name: "no first step yet", hold: from(4), report: steps(0), want: never},
		{name: "no first step yet, with work shown", hold: from(4), report: func(int) registry.State {
			return registry.State{CountsSteps: true, Running: 1}
		}, want: never},
		{name: "froze after its first step", hold: from(4), report: func(i int) registry.State {
			return registry.State{Steps: uint64(min(i/8, 1)), CountsSteps: true, Running: 1}
		}, want: 18},
		{name: "froze with ours, which it shows", hold: from(4), report: running(5, 100), want: 15},
		{name: "shows ours late, and steps late", hold: from(4), report: func(i int) registry.State {
			return registry.State{Steps: uint64(100 + max(i-16, 0)/9), Running: min(max(i-15, 0), 1)}
		}, want: never},
		{name: "no step counter", hold: from(4), report: func(int) registry.State { return registry.State{} }, want: never},
		{name: "froze with others' requests only", hold: none, report: running(4, 100), want: 14},
		{name: "froze with requests waiting only", hold: none, report: func(i int) registry.State {
			return registry.State{Steps: 100, Waiting: min(i/4, 1)}
		}, want: 14},
		{name: "others' work, then ours", hold: from(8), report: func(i int) registry.State {
			s := registry.State{Steps: 100}
			if i >= 4 && i <= 10 {
				s.Running = 1
			}
			return s
		}, want: 23},
		{name: "idle", hold: none, report: steps(100), want: never},
		{name: "idle before its first step", hold: none, report: steps(0), want: never},
		{name: "steps", hold: from(4), report: func(i int) registry.State { return registry.State{Steps: uint64(i / 9), CountsSteps: true} }, want: never},
		{name: "the first step late", hold: from(4), report: func(i int) registry.State { return registry.State{Steps: uint64(max(i-8, 0) / 5), CountsSteps: true} }, want: never},
		{name: "tokens though the counter stands", hold: from(4), report: steps(100), token: func(i int) bool { return i%9 == 0 }, want: never},
		{name: "the last token counts", hold: from(4), report: steps(100), token: func(i int) bool { return i == 12 }, want: 27},
		{name: "nothing for a moment", hold: func(i int) int { return min(i%9, 1) }, report: steps(100), want: never},
		{name: "asleep", hold: from(4), report: func(int) registry.State { return registry.State{Steps: 100, Asleep: true} }, want: never},
		{name: "froze when it woke up", hold: from(4), report: func(i int) registry.State {
			return registry.State{Steps: 100, Running: 1, Asleep: i > 4 && i < 30}
		}, want: 40},
		{name: "its client reads slowly", hold: from(4), first: true, report: steps(100), want: never},
		{name: "media on its way", hold: from(4), claim: registry.Claim{Media: true}, report: steps(100), want: never},
		{name: "froze with media", hold: from(4), claim: registry.Claim{Media: true}, report: running(20, 100), want: 30},
	}
	for _, tt := range tests {
		r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
		held := hold(t, r, tt.claim, tt.first)
		got := never
		for i := 0; i < 60 && got == never; i++ {
			now := time.Duration(i) * sec / 2
			held(tt.hold(i), now)
			if tt.token != nil && tt.token(i) {
				r.Progress(at(now))
			}
			s := tt.report(i)
			s.At = at(now)
			r.Report(s)
			if why, out := r.Ejected(); out {
				got = i
				if why != registry.ByFreeze {
					t.Errorf("%s: reason = %q, want %q", tt.name, why, registry.ByFreeze)
				}
			}
		}
		if got != tt.want {
			t.Errorf("%s: ejected at half second %d, want %d", tt.name, got, tt.want)
		}
	}
}

func none(int) int { return 0 }

func from(first int) func(int) int {
	return func(i int) int {
		if i < first {
			return 0
		}
		return 1 + i%3
	}
}

func steps(n uint64) func(int) registry.State {
	return func(int) registry.State { return registry.State{Steps: n, CountsSteps: true} }
}

func running(first int, steps uint64) func(int) registry.State {
	return func(i int) registry.State {
		s := registry.State{Steps: steps}
		if i >= first {
			s.Running = 3
		}
		return s
	}
}

// hold returns a function that keeps n leases on r, which have their first token
// if first.
func hold(t *testing.T, r *registry.Replica, c registry.Claim, first bool) func(n int, now time.Duration) {
	var held []registry.Lease
	return func(n int, now time.Duration) {
		for len(held) < n {
			l, ok := r.LeaseAt(c, at(now))
			if !ok {
				if r.State().Asleep {
					return
				}
				t.Fatalf("after %v: no lease", now)
			}
			if first {
				l.FirstTokenAt(at(now))
			}
			held = append(held, l)
		}
		for ; len(held) > n; held = held[1:] {
			held[0].Release()
		}
	}
}

// TestJ3FreezeBeyondHalfThePool: when everything stands still, half stays.
func TestJ3FreezeBeyondHalfThePool(t *testing.T) {
	p := newPool(t, 5, registry.PoolConfig{})
	for _, r := range p.Replicas() {
		lease(t, r, registry.Claim{}, 0)
	}
	for i := range 40 {
		for _, r := range p.Replicas() {
			r.Report(registry.State{At: at(time.Duration(i) * sec / 2), Steps: 7})
		}
	}
	out := 0
	for _, r := range p.Replicas() {
		if _, ejected := r.Ejected(); ejected {
			out++
		}
	}
	if out != 2 {
		t.Errorf("%d of 5 ejected, want 2", out)
	}
}

// TestJ3FrozenWhileIdleLeavesWithin10s: 50 requests a second go to three
// replicas in turn; one has been frozen since before the first, hangs on to all
// it gets and shows none of it.
func TestJ3FrozenWhileIdleLeavesWithin10s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 3, registry.PoolConfig{})
		frozen, began := p.Replicas()[0], time.Now()
		total := uint64(1)
		for i := range 500 {
			time.Sleep(20 * time.Millisecond)
			r := p.Replicas()[i%3]
			if r.Routable(time.Now()) {
				l, ok := r.Lease(registry.Claim{Prefill: 100, KV: 200})
				if !ok {
					t.Fatal("no lease on a routable replica")
				}
				if r != frozen {
					total++
					l.FirstToken()
					l.Succeeded(time.Now())
					l.Release()
				}
			}
			if i%25 == 0 {
				for _, r := range p.Replicas() {
					s := registry.State{At: time.Now(), Steps: 1}
					if r != frozen {
						s.Steps = total
					}
					r.Report(s)
				}
			}
		}
		if frozen.Routable(time.Now()) {
			t.Errorf("still routable %v after it was frozen, with %d requests on it", time.Since(began), frozen.Load().Requests)
		}
		for _, r := range p.Replicas()[1:] {
			if !r.Routable(time.Now()) {
				t.Errorf("replica %s is not routable", r.Name())
			}
		}
	})
}
