package router_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

func TestTraceExplains(t *testing.T) {
	p := newPool(t, 7, registry.PoolConfig{KVTokens: 1000})
	rs := p.Replicas()
	now := t0.Add(time.Minute)
	costs := []float64{1, 2, 3, router.Never, 0.5, 0.5, 0.5}
	base := router.ScorerFunc(func(cost []float64, _ *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			cost[i] += costs[r.Slot()]
		}
	})
	flat := router.ScorerFunc(func(cost []float64, _ *router.Request, replicas []*registry.Replica) {
		for i := range replicas {
			cost[i] += 0.25
		}
	})
	for _, r := range rs[:4] {
		r.Report(registry.State{At: now, KVTokens: 1000})
	}
	rs[0].LeaseAt(registry.Claim{KV: 800}, now)
	rs[4].Report(registry.State{At: t0, KVTokens: 1000})
	rs[5].Drain()
	req := &router.Request{Prompt: 200, Cached: []int{0, 150}, Now: now, Tried: rs[6:], Trace: new(router.Trace)}
	d, err := router.New(router.Config{Scorers: []router.Scorer{base, flat}}).Pick(req, rs)
	if err != nil || d.Replica != rs[1] || d.Cost != 2.25 || d.Cached != 150 {
		t.Fatalf("Pick = %+v, %v, want r1 at 2.25 with 150 cached", d, err)
	}
	want := []router.Outcome{router.NoRoom, router.Chosen, router.Dearer, router.RuledOut, router.Stale, router.Unhealthy, router.Tried}
	for i, v := range req.Trace.Replicas {
		if v.Replica != rs[i] || v.Outcome != want[i] {
			t.Errorf("%s: outcome %q, want %q", v.Replica.Name(), v.Outcome, want[i])
		}
		scored := i < 4
		if (v.Costs != nil) != scored {
			t.Errorf("%s: costs %v", v.Replica.Name(), v.Costs)
		}
		if scored && (v.Costs[0] != costs[i] || v.Costs[1] != 0.25 || v.Cost != costs[i]+0.25) {
			t.Errorf("%s: costs %v in all %v, want %v and 0.25", v.Replica.Name(), v.Costs, v.Cost, costs[i])
		}
	}
	if got := req.Trace.Replicas[0].Load.KV; got != 800 {
		t.Errorf("traced load has %d KV tokens, want 800", got)
	}
}

// A trace must not change the decision.
func TestTraceIsNeutral(t *testing.T) {
	p, q := busyPool(t, 16, t0), busyPool(t, 16, t0)
	rt := router.New(router.Config{Scorers: fiveScorers()})
	for key := range uint64(200) {
		req := router.Request{Key: key * 31, Prompt: 500 + int(key), Output: 100, Adapter: "t1", Now: t0}
		plain, err1 := rt.Pick(&req, p.Replicas())
		plain.Lease.Release()
		req.Trace = new(router.Trace)
		traced, err2 := rt.Pick(&req, q.Replicas())
		traced.Lease.Release()
		if err1 != nil || err2 != nil || plain.Replica.Name() != traced.Replica.Name() || !near(plain.Cost, traced.Cost) {
			t.Fatalf("key %d: %v at %v without a trace, %v at %v with one", key, name(plain.Replica), plain.Cost, name(traced.Replica), traced.Cost)
		}
	}
}
