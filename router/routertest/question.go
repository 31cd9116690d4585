package routertest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

// fleet is a pool whose replicas are in all kinds of states at a time.
type fleet struct {
	pool     *registry.Pool
	replicas []*registry.Replica // the last has left the pool if there are several
	now      time.Time
}

// sizes are how many replicas a Scorer is asked about.
var sizes = []int{0, 1, 2, 9, 70}

// newFleet makes n replicas: without any report, idle, busy with the work of
// others, silent, busy with ours, suspected, with adapters, full, and so on.
func newFleet(n int) *fleet {
	f := &fleet{now: time.Now()}
	f.pool = newPool()
	for i := range n {
		r := add(f.pool, i)
		switch i % 9 {
		case 1:
			r.Report(registry.State{At: f.now, KVTokens: 100_000})
		case 2:
			r.Report(registry.State{At: f.now, KVTokens: 100_000, Running: 20, Waiting: 3, KVUsage: 0.9})
		case 3:
			r.Report(registry.State{At: f.now.Add(-time.Hour), KVTokens: 100_000, Running: 7, KVUsage: 0.2})
		case 4:
			lease(r, registry.Claim{Prefill: 3000, KV: 3500, Context: 3200, Sequences: 4})
		case 5:
			r.Failed(f.now)
			r.Failed(f.now.Add(-time.Second))
		case 6:
			lease(r, registry.Claim{KV: 10, Adapter: "held"})
		case 7:
			r.Report(registry.State{At: f.now, KVTokens: 4000, KVUsage: 1, MaxLoRA: 1, Adapters: []string{"other"}})
		case 8:
			r.Drain()
		}
	}
	f.replicas = slices.Clone(f.pool.Replicas())
	if n > 1 {
		f.pool.Remove(f.replicas[n-1])
	}
	return f
}

// reporting makes n replicas that all have reported just now, so that what a
// Router shows its Scorers is what the replicas say.
func reporting(n int) *fleet {
	f := &fleet{now: time.Now(), pool: newPool()}
	for i := range n {
		r := add(f.pool, i)
		r.Report(registry.State{At: f.now, KVTokens: 1_000_000, Running: i, Waiting: i % 3, KVUsage: float64(i%5) / 10})
		lease(r, registry.Claim{Prefill: 100 * i, KV: 200 * i, Context: 300 * i, Sequences: 1 + i%4})
	}
	f.replicas = slices.Clone(f.pool.Replicas())
	return f
}

func newPool() *registry.Pool {
	p, err := registry.NewPool(registry.PoolConfig{Name: "pool", MaxLoRA: 2})
	if err != nil {
		panic(err)
	}
	return p
}

func add(p *registry.Pool, i int) *registry.Replica {
	r, err := p.Add(registry.ReplicaConfig{
		Name: fmt.Sprintf("r%d", i), URL: fmt.Sprintf("http://192.0.2.%d:8000", i+1),
		Zone: []string{"", "a", "b"}[i%3],
	})
	if err != nil {
		panic(err)
	}
	return r
}

func lease(r *registry.Replica, c registry.Claim) {
	if _, ok := r.Lease(c); !ok {
		panic("no lease on an empty replica")
	}
}

// requests returns requests of all kinds, made anew.
func (b *bench) requests(f *fleet) []*router.Request {
	cached := make([]int, len(f.replicas)+3)
	for i := range cached {
		cached[i] = 160 * (i % 12)
	}
	blocks := make([]uint64, 100)
	for i := range blocks {
		blocks[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	list := []*router.Request{
		{Now: f.now},
		{}, // for the present
		{Now: f.now, Key: 7, Prompt: 1, Output: 1},
		{Now: f.now, Key: blocks[0], Blocks: blocks, Prompt: 1610, Output: 300, Cached: cached, BlockSize: 16},
		{Now: f.now, Key: 8, Prompt: 900, Output: 100, Sequences: 8, Cached: slices.Clone(cached[:len(cached)/2])},
		{Now: f.now, Key: 9, Prompt: 900, Output: 100, Adapter: "held"},
		{Now: f.now, Key: 10, Prompt: 900, Output: 100, Adapter: "nowhere", Tried: slices.Clone(f.replicas[:len(f.replicas)/2])},
		{Now: f.now, Key: math.MaxUint64, Prompt: 1_000_000, Output: 100_000, Sequences: 16},
	}
	for _, q := range list {
		if b.Value != nil {
			q.Value = b.Value()
		}
	}
	return list
}

// each asks something about fleets of all sizes and requests of all kinds.
func (b *bench) each(ask func(f *fleet, q *router.Request) error) error {
	for _, n := range sizes {
		f := newFleet(n)
		for i, q := range b.requests(f) {
			if err := ask(f, q); err != nil {
				return fmt.Errorf("request %d, %d replicas: %w", i, n, err)
			}
		}
	}
	return nil
}

// score returns what a Scorer adds to costs of zero.
func score(s router.Scorer, q *router.Request, replicas []*registry.Replica) []float64 {
	cost := make([]float64, len(replicas))
	s.Score(cost, q, replicas)
	return cost
}

// near reports whether costs are the same, but for rounding at the size of
// what they were added to.
func near(got, want, base float64) bool {
	return got == want || math.Abs(got-want) <= 1e-9*(math.Abs(want)+math.Abs(base))
}

// differ says where costs are not the same.
func differ(got, want []float64) error {
	for i := range want {
		if !near(got[i], want[i], 0) {
			return wrong("cost[%d] = %v, want %v", i, got[i], want[i])
		}
	}
	return nil
}
