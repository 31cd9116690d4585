package registry_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// TestLedgerAgainstModel plays random sequences of calls, repeated and out of
// order, and compares every ledger with a plain sum over the leases alive.
func TestLedgerAgainstModel(t *testing.T) {
	type held struct {
		l     registry.Lease
		r     int
		claim registry.Claim
		first bool
		over  bool
	}
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		p := newPool(t, 3, registry.PoolConfig{KVTokens: 5000, Headroom: 0.1})
		rs := p.Replicas()
		var all []*held
		for step := range 2000 {
			now := at(time.Duration(step) * time.Millisecond)
			if rnd.IntN(3) == 0 || len(all) == 0 {
				h := &held{r: rnd.IntN(3), claim: registry.Claim{
					Prefill: rnd.IntN(500), KV: rnd.IntN(1500), Context: rnd.IntN(900), Sequences: rnd.IntN(4),
				}}
				sum := modelLoad(h.r, all, func(x *held) (int, registry.Claim, bool, bool) { return x.r, x.claim, x.first, x.over })
				want := sum.KV+h.claim.KV <= 4500 || sum == registry.Load{} && h.claim.KV <= 5000
				l, ok := rs[h.r].LeaseAt(h.claim, now)
				if ok != want {
					t.Fatalf("seed %d step %d: Lease of %d beside %d = %v, want %v", seed, step, h.claim.KV, sum.KV, ok, want)
				}
				if ok {
					h.l = l
					all = append(all, h)
				}
			} else {
				h := all[rnd.IntN(len(all))]
				l := h.l // a copy works as well
				switch rnd.IntN(4) {
				case 0:
					l.FirstTokenAt(now)
					h.first = true
				case 1:
					l.Grow(7)
					if !h.over {
						h.claim.KV += 7
						h.claim.Context += 7
					}
				default:
					l.Release()
					h.over = true
				}
				if l.Active() == h.over {
					t.Fatalf("seed %d step %d: Active = %v", seed, step, !h.over)
				}
			}
			for i, r := range rs {
				want := modelLoad(i, all, func(x *held) (int, registry.Claim, bool, bool) { return x.r, x.claim, x.first, x.over })
				if got := r.Load(); got != want {
					t.Fatalf("seed %d step %d: Load = %+v, want %+v", seed, step, got, want)
				}
			}
		}
		for _, h := range all {
			h.l.Release()
		}
		if got := p.Load(); got != (registry.Load{}) {
			t.Fatalf("seed %d: Load at rest = %+v, want none", seed, got)
		}
	}
}

func modelLoad[T any](r int, all []T, get func(T) (int, registry.Claim, bool, bool)) (sum registry.Load) {
	for _, h := range all {
		on, c, first, over := get(h)
		if on != r || over {
			continue
		}
		n := max(c.Sequences, 1)
		sum.Requests += n
		sum.KV += c.KV
		sum.Context += c.Context
		if !first {
			sum.Prefilling += n
			sum.Prefill += c.Prefill
		}
	}
	return sum
}

// TestConcurrentUse has every method called from many goroutines at once,
// with several ending the same lease, while members come and go. No counter
// is ever negative, no replica holds more than its capacity, and all is zero
// at the end.
func TestConcurrentUse(t *testing.T) {
	const capacity = 20_000
	p := newPool(t, 6, registry.PoolConfig{KVTokens: capacity, Eject: registry.EjectConfig{Pause: time.Millisecond}})
	first := p.Replicas()
	var calls atomic.Int64
	p.OnChange(func() { calls.Add(1) })
	var workers, watchers sync.WaitGroup
	done := make(chan struct{})
	watchers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for _, r := range first {
				l := r.Load()
				if min(l.Requests, l.Prefilling, l.Prefill, l.KV, l.Context) < 0 || l.KV > capacity {
					t.Errorf("Load = %+v, want nothing below 0 and at most %d KV", l, capacity)
				}
				r.Report(registry.State{At: time.Now(), Running: 3, Steps: 1, KVUsage: 0.1, KVTokens: capacity, Adapters: []string{"t9"}})
			}
			extra, err := p.Add(registry.ReplicaConfig{Name: "extra", URL: "http://10.1.1.1"})
			if err != nil {
				t.Error(err)
			}
			p.Remove(extra)
		}
	})
	for w := range 8 {
		workers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 2))
			for range 3000 {
				rs := p.Replicas()
				r := rs[rnd.IntN(len(rs))]
				if r.Slot() >= 7 {
					t.Errorf("slot %d in a pool of at most 7", r.Slot())
				}
				l, ok := r.Lease(registry.Claim{Prefill: 100, KV: rnd.IntN(3000), Context: 200, Adapter: "t" + string(rune('0'+rnd.IntN(6)))})
				if !ok {
					continue
				}
				if rnd.IntN(2) == 0 {
					l.FirstToken()
					l.Succeeded(time.Now())
				} else if rnd.IntN(8) == 0 {
					r.Failed(time.Now())
				}
				l.Grow(rnd.IntN(3) - 1)
				var pair sync.WaitGroup
				pair.Go(func() { l.FirstToken(); l.Release() })
				other := l
				other.Release()
				pair.Wait()
				r.Estimate(time.Now())
				r.Routable(time.Now())
			}
		})
	}
	workers.Wait()
	close(done)
	watchers.Wait()
	for _, r := range first {
		if got := r.Load(); got != (registry.Load{}) {
			t.Errorf("Load at rest = %+v, want none", got)
		}
	}
	if calls.Load() == 0 {
		t.Error("OnChange was never called")
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool is not exact under the race detector")
	}
	p := newPool(t, 8, registry.PoolConfig{KVTokens: 100_000})
	for _, r := range p.Replicas() {
		r.Report(registry.State{At: t0, Running: 2, Waiting: 1, KVUsage: 0.1, KVTokens: 100_000, MaxLoRA: 4})
	}
	var v registry.View
	n := testing.AllocsPerRun(1000, func() {
		for _, r := range p.Replicas() {
			r.View(&v, t0)
			_ = r.Estimate(t0)
			l, ok := r.LeaseAt(registry.Claim{Prefill: 10, KV: 20, Context: 15, Adapter: "x"}, t0)
			if !ok {
				t.Fatal("refused")
			}
			l.FirstTokenAt(t0)
			l.Succeeded(t0)
			r.Progress(t0)
			l.Grow(1)
			l.Release()
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per request, want 0", n)
	}
}
