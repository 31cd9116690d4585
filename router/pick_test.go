package router_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

// bruteForce says what Pick must choose, in the plainest way: nil, ErrNoRoom
// and so on if nothing. cost holds every replica's cost by slot.
func bruteForce(req *router.Request, replicas []*registry.Replica, cost []float64, tie float64) (*registry.Replica, error) {
	var reporting, silent []*registry.Replica
	anyFresh := false
	for _, r := range replicas {
		if !r.Routable(req.Now) || slices.Contains(req.Tried, r) {
			continue
		}
		anyFresh = anyFresh || r.Fresh(req.Now)
		if r.State() != nil && !r.Fresh(req.Now) {
			silent = append(silent, r)
		} else {
			reporting = append(reporting, r)
		}
	}
	groups := [][]*registry.Replica{reporting, silent}
	if !anyFresh {
		groups = [][]*registry.Replica{append(reporting, silent...)}
	}
	room, candidates, fits := false, 0, false
	for _, left := range groups {
		left = slices.DeleteFunc(left, func(r *registry.Replica) bool { return math.IsInf(cost[r.Slot()], 1) })
		candidates += len(left)
		for len(left) > 0 {
			least := math.Inf(1)
			for _, r := range left {
				least = min(least, cost[r.Slot()])
			}
			var win *registry.Replica
			for _, r := range left {
				if cost[r.Slot()] <= least+tie && (win == nil ||
					router.Draw(req.Key, r.Hash()) > router.Draw(req.Key, win.Hash())) {
					win = r
				}
			}
			full, usable := win.Capacity()
			others, _ := win.Others(req.Now)
			need, held := req.Claim(win).KV, win.Load().KV+others.KV
			if full == 0 || held+need <= usable || held == 0 && win.Load().Requests == 0 && need <= full {
				return win, nil
			}
			room = room || need <= full
			fits = fits || need <= full
			left = slices.DeleteFunc(left, func(r *registry.Replica) bool { return r == win })
		}
	}
	switch {
	case room:
		return nil, router.ErrNoRoom
	case candidates > 0 && !fits:
		return nil, router.ErrTooLarge
	}
	return nil, router.ErrNoReplica
}

func TestPickAgainstBruteForce(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		n := rnd.IntN(9)
		p := newPool(t, n, registry.PoolConfig{KVTokens: []int{0, 2000, 4000}[rnd.IntN(3)], Headroom: 0.2})
		rs := p.Replicas()
		tie := []float64{-1, 0.5}[rnd.IntN(2)]
		fixed := make([]float64, n)
		for i := range fixed {
			if fixed[i] = math.Round(rnd.Float64()*8) / 4; rnd.IntN(8) == 0 {
				fixed[i] = router.Never
			}
		}
		half := router.ScorerFunc(func(cost []float64, _ *router.Request, replicas []*registry.Replica) {
			for i, r := range replicas {
				cost[i] += fixed[r.Slot()] / 2
			}
		})
		rt := router.New(router.Config{Scorers: []router.Scorer{half, half}, Tie: tie})
		for step := range 60 {
			now := t0.Add(time.Duration(step) * time.Second)
			if n > 0 {
				disturb(rnd, rs[rnd.IntN(n)], now)
			}
			req := &router.Request{Key: rnd.Uint64(), Prompt: rnd.IntN(1500), Output: rnd.IntN(400), Now: now, BlockSize: 16}
			if rnd.IntN(20) == 0 {
				req.Prompt = 5000
			}
			for range n {
				req.Cached = append(req.Cached, rnd.IntN(2000))
			}
			for _, r := range rs {
				if rnd.IntN(6) == 0 {
					req.Tried = append(req.Tried, r)
				}
			}
			if rnd.IntN(4) == 0 {
				req.Trace = new(router.Trace)
			}
			want, wantErr := bruteForce(req, rs, fixed, max(tie, 0))
			var before registry.Load
			if want != nil {
				before = want.Load()
			}
			d, err := rt.Pick(req, rs)
			if d.Replica != want || !errors.Is(err, wantErr) || (err == nil) != (want != nil) {
				t.Fatalf("seed %d step %d: Pick = %v, %v, want %v, %v", seed, step, name(d.Replica), err, name(want), wantErr)
			}
			if err != nil {
				outcomes[err.Error()]++
				continue
			}
			outcomes["picked"]++
			c := req.Claim(want)
			if got := want.Load().KV - before.KV; got != c.KV || d.Cost != fixed[want.Slot()] || d.Cached != req.CachedOn(want) {
				t.Fatalf("seed %d step %d: took %d KV for %+v, cost %v, cached %d", seed, step, got, c, d.Cost, d.Cached)
			}
			if rnd.IntN(3) == 0 {
				d.Lease.Release()
			}
		}
	}
	for _, o := range []string{"picked", router.ErrNoRoom.Error(), router.ErrNoReplica.Error(), router.ErrTooLarge.Error()} {
		if outcomes[o] < 20 {
			t.Errorf("%q came up %d times only: the comparison does not cover it", o, outcomes[o])
		}
	}
}

func name(r *registry.Replica) string {
	if r == nil {
		return "none"
	}
	return r.Name()
}

// disturb changes something about a replica.
func disturb(rnd *rand.Rand, r *registry.Replica, now time.Time) {
	switch rnd.IntN(8) {
	case 0:
		r.Drain()
	case 1, 2:
		r.Resume()
	case 3, 4, 5:
		r.Report(registry.State{At: now, Running: rnd.IntN(3), KVUsage: rnd.Float64() / 2, KVTokens: 3000})
	case 6:
		r.Failed(now)
	case 7:
		r.Restarted()
	}
}

func TestTiesSpread(t *testing.T) {
	p := newPool(t, 8, registry.PoolConfig{})
	rt := router.New(router.Config{})
	count := map[string]int{}
	for i := range 8000 {
		d, err := rt.Pick(&router.Request{Key: uint64(i), Prompt: 100, Output: 100, Now: t0}, p.Replicas())
		if err != nil {
			t.Fatal(err)
		}
		count[d.Replica.Name()]++
		d.Lease.Release()
	}
	for _, r := range p.Replicas() {
		if n := count[r.Name()]; n < 850 || n > 1150 {
			t.Errorf("%s got %d of 8000 prompts, want 1000 ± 15 %%", r.Name(), n)
		}
	}
}

// Learned speeds of equal replicas differ by noise, and that must not decide.
func TestNearTiesSpread(t *testing.T) {
	p := newPool(t, 8, registry.PoolConfig{})
	jitter := router.ScorerFunc(func(cost []float64, _ *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			cost[i] += 0.05 + 0.0001*float64(r.Slot())
		}
	})
	rt := router.New(router.Config{Scorers: []router.Scorer{jitter}})
	count := make([]int, 8)
	for i := range 8000 {
		d, err := rt.Pick(&router.Request{Key: uint64(i) << 20, Now: t0}, p.Replicas())
		if err != nil {
			t.Fatal(err)
		}
		count[d.Replica.Slot()]++
	}
	if slices.Min(count) < 850 || slices.Max(count) > 1150 {
		t.Errorf("near ties spread as %v, want 1000 ± 15 %% each", count)
	}
}

func TestGatewaysAgreeOnTies(t *testing.T) {
	a, b := newPool(t, 8, registry.PoolConfig{}), newPool(t, 9, registry.PoolConfig{})
	b.Remove(b.Replicas()[0])
	a.Remove(a.Replicas()[0])
	nine := b.Replicas()[7]
	rt := router.New(router.Config{})
	moved := 0
	for key := range uint64(2000) {
		req := &router.Request{Key: key * 977, Now: t0}
		da, errA := rt.Pick(req, a.Replicas())
		db, errB := rt.Pick(req, b.Replicas())
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if db.Replica == nine {
			moved++
		} else if da.Replica.Name() != db.Replica.Name() {
			t.Fatalf("key %d: %s on one gateway, %s on the other", key, da.Replica.Name(), db.Replica.Name())
		}
		da.Lease.Release()
		db.Lease.Release()
	}
	if moved < 200 || moved > 300 {
		t.Errorf("a newcomer, one of eight, took %d of 2000 keys, want about 250", moved)
	}
}

func TestStaleReportsDoNotAttract(t *testing.T) {
	p := newPool(t, 3, registry.PoolConfig{})
	rs := p.Replicas()
	rt := router.New(router.Config{})
	pick := func(after time.Duration) int {
		d, err := rt.Pick(&router.Request{Key: uint64(after), Prompt: 100, Output: 10, Now: t0.Add(after)}, rs)
		if err != nil {
			t.Fatal(err)
		}
		return d.Replica.Slot()
	}
	rs[0].Report(registry.State{At: t0, KVTokens: 10_000})
	busy := func(after time.Duration) {
		for _, r := range rs[1:] {
			r.Report(registry.State{At: t0.Add(after), Running: 40, KVUsage: 0.6, KVTokens: 10_000})
		}
	}
	for s := range 20 {
		after := time.Duration(s) * time.Second
		busy(after)
		for i := range 5 {
			got := pick(after + time.Duration(i))
			if after > 5*time.Second && got == 0 {
				t.Errorf("after %v: a request went to the replica that stopped reporting", after)
			}
		}
	}
	if n := rs[0].Load().Requests; n == 0 {
		t.Error("the replica got nothing even while its report was fresh")
	}
}

func TestAllStaleFallsBackToOwnBooks(t *testing.T) {
	for _, n := range []int{1, 3} {
		p := newPool(t, n, registry.PoolConfig{})
		for _, r := range p.Replicas() {
			r.Report(registry.State{At: t0, Running: 100, Waiting: 50, KVUsage: 0.99, KVTokens: 100_000})
		}
		rt := router.New(router.Config{})
		now := t0.Add(time.Minute)
		for i := range 30 {
			if _, err := rt.Pick(&router.Request{Key: uint64(i), Prompt: 200, Output: 100, Now: now}, p.Replicas()); err != nil {
				t.Fatalf("%d replicas, all stale: Pick = %v, want a replica", n, err)
			}
		}
		for _, r := range p.Replicas() {
			if got := r.Load().Requests; got != 30/n {
				t.Errorf("%d replicas, all stale: %s got %d of 30, want an equal share", n, r.Name(), got)
			}
		}
	}
}

func TestStaleOnesServeWhenTheOthersAreFull(t *testing.T) {
	p := newPool(t, 2, registry.PoolConfig{})
	rs := p.Replicas()
	now := t0.Add(time.Minute)
	rs[0].Report(registry.State{At: t0, KVTokens: 1000})
	rs[1].Report(registry.State{At: now, Running: 1, KVUsage: 0.8, KVTokens: 1000})
	d, err := router.New(router.Config{}).Pick(&router.Request{Prompt: 100, Now: now}, rs)
	if err != nil || d.Replica != rs[0] {
		t.Errorf("Pick = %v, %v, want the stale replica, which has room", name(d.Replica), err)
	}
}

// Seven replicas are busy with other gateways' requests; one has not yet
// been heard of.
func TestUnknownIsNotIdle(t *testing.T) {
	p := newPool(t, 8, registry.PoolConfig{})
	rs := p.Replicas()
	for _, r := range rs[:7] {
		r.Report(registry.State{At: t0, Running: 40, KVUsage: 0.2, KVTokens: 420_000})
	}
	rt := router.New(router.Config{})
	for i := range 80 {
		if _, err := rt.Pick(&router.Request{Key: uint64(i) * 31, Prompt: 1800, Output: 300, Now: t0}, rs); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range rs {
		if got := r.Load().Requests; got < 8 || got > 12 {
			t.Errorf("%s got %d of 80 requests, want about its share of 10", r.Name(), got)
		}
	}
}

func TestNotANumberIsNever(t *testing.T) {
	p := newPool(t, 2, registry.PoolConfig{})
	bad := router.ScorerFunc(func(cost []float64, _ *router.Request, _ []*registry.Replica) { cost[0] = math.NaN() })
	rt := router.New(router.Config{Scorers: []router.Scorer{bad}})
	for i := range 50 {
		d, err := rt.Pick(&router.Request{Key: uint64(i), Now: t0}, p.Replicas())
		if err != nil || d.Replica.Slot() != 1 {
			t.Fatalf("Pick = %v, %v, want the replica whose cost is a number", name(d.Replica), err)
		}
	}
	if _, err := rt.Pick(&router.Request{Now: t0}, p.Replicas()[:1]); err != router.ErrNoReplica {
		t.Errorf("Pick among NaN only = %v, want ErrNoReplica", err)
	}
}

func TestPanickingScorerLeaksNothing(t *testing.T) {
	p := newPool(t, 2, registry.PoolConfig{})
	rt := router.New(router.Config{Scorers: []router.Scorer{router.ScorerFunc(
		func([]float64, *router.Request, []*registry.Replica) { panic("injected") })}})
	func() {
		defer func() { _ = recover() }()
		_, _ = rt.Pick(&router.Request{Now: t0}, p.Replicas())
	}()
	if got := p.Load(); got != (registry.Load{}) {
		t.Errorf("Load = %+v after a panic in a scorer, want none", got)
	}
}

func TestPickDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool is not exact under the race detector")
	}
	p := busyPool(t, 64, t0)
	for _, s := range router.Names() {
		named, err := router.ByName(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, rt := range []*router.Router{named, router.New(router.Config{Scorers: fiveScorers()})} {
			req := &router.Request{Adapter: "t1", Prompt: 1800, Output: 300, Now: t0, Cached: make([]int, 64), Tried: p.Replicas()[:2]}
			if n := testing.AllocsPerRun(200, func() {
				d, err := rt.Pick(req, p.Replicas())
				if err != nil {
					t.Fatal(err)
				}
				d.Lease.Release()
			}); n != 0 {
				t.Errorf("%s: %v allocations per pick, want 0", s, n)
			}
		}
	}
}
