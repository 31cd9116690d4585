package router_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

// fiveScorers is the default and what an operator would add to it.
func fiveScorers() []router.Scorer {
	own := router.ScorerFunc(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			if req.Load(i, r).Requests > 200 {
				cost[i] = router.Never
			}
		}
	})
	return append(router.Default(), router.Zone{Local: "a"}, own)
}

// busyPool has n replicas with work on them and fresh reports.
func busyPool(tb testing.TB, n int, now time.Time) *registry.Pool {
	p := newPool(tb, n, registry.PoolConfig{KVTokens: 420_000, StaleAfter: time.Hour})
	for i, r := range p.Replicas() {
		for j := range 10 + i%7 {
			l, ok := r.LeaseAt(registry.Claim{Prefill: 900, KV: 1200, Context: 1950, Adapter: "t1"}, now)
			if !ok {
				tb.Fatal("lease refused")
			}
			if j%3 > 0 {
				l.FirstTokenAt(now.Add(time.Second))
			}
		}
		r.Report(registry.State{At: now, Running: 12, Waiting: 2, KVUsage: 0.1, KVTokens: 420_992, Steps: 10, MaxLoRA: 8})
	}
	return p
}

func BenchmarkPick64Replicas5Scorers(b *testing.B) {
	now := time.Now()
	p := busyPool(b, 64, now)
	rt := router.New(router.Config{Scorers: fiveScorers()})
	cached := make([]int, p.Slots())
	for i := range cached {
		cached[i] = i % 5 * 300
	}
	req := &router.Request{Adapter: "t1", Prompt: 1800, Output: 300, Cached: cached, BlockSize: 16}
	b.ReportAllocs()
	for b.Loop() {
		req.Key += 0x9e3779b97f4a7c15
		d, err := rt.Pick(req, p.Replicas())
		if err != nil {
			b.Fatal(err)
		}
		d.Lease.Release()
	}
}

// BenchmarkHashAndOverlap is what the prefix map costs a request: hashing
// 1,800 tokens and looking them up on 64 replicas, a third of which hold all.
func BenchmarkHashAndOverlap(b *testing.B) {
	tokens := make([]uint32, 1800)
	for i := range tokens {
		tokens[i] = uint32(i * 7919 % 128_000)
	}
	tb := prefix.NewTable(prefix.TableConfig{})
	seed := prefix.Seed("", "")
	blocks := prefix.AppendBlocks(nil, seed, tokens, 16)
	for slot := range 64 {
		if slot%3 == 0 {
			tb.Add(slot, blocks)
		} else {
			tb.Add(slot, blocks[:slot])
		}
	}
	n := make([]int, 64)
	b.ReportAllocs()
	for b.Loop() {
		blocks = prefix.AppendBlocks(blocks[:0], seed, tokens, 16)
		tb.Overlap(n, blocks)
	}
	if n[63] != len(blocks) || n[62] != 62 {
		b.Fatalf("Overlap = %v", n)
	}
}
