package routertest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

func doesNotBlock(b *bench) error {
	return b.each(func(f *fleet, q *router.Request) error {
		began := time.Now()
		score(b.Scorer, q, f.replicas)
		if d := time.Since(began); d > 0 {
			return wrong("it waited for %v", d)
		}
		return nil
	})
}

// concurrent: many goroutines ask, first while nothing changes, so that the
// answers are known, and then while the replicas do.
func concurrent(b *bench) error {
	f := newFleet(9)
	var want [][]float64
	for _, q := range b.requests(f) {
		want = append(want, score(b.Scorer, q, f.replicas))
	}
	var first errs
	ask := func(still bool) {
		for range 50 {
			for i, q := range b.requests(f) {
				got := score(b.Scorer, q, f.replicas)
				if still && !b.Varies {
					first.add(differ(got, want[i]))
				}
				for j, c := range got {
					first.add(number(j, c))
				}
			}
		}
	}
	for _, still := range []bool{true, false} {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { ask(still) })
		}
		if !still {
			wg.Go(func() { disturb(f) })
		}
		wg.Wait()
	}
	return first.err
}

// errs keeps the first error.
type errs struct {
	mu  sync.Mutex
	err error
}

func (e *errs) add(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}

// disturb changes the replicas.
func disturb(f *fleet) {
	for i := range 500 {
		r := f.replicas[i%len(f.replicas)]
		if l, ok := r.Lease(registry.Claim{Prefill: i, KV: i, Context: i, Adapter: []string{"", "x"}[i%2]}); ok {
			l.FirstToken()
			l.Release()
		}
		r.Report(registry.State{At: f.now, KVTokens: 100_000, Running: i % 7, KVUsage: 0.5})
		if i%5 == 0 {
			r.Failed(f.now)
			r.Succeeded(f.now)
		}
	}
}

// inRouter: a Router shows some of the replicas, each with a load, and adds
// up what it is told.
func inRouter(b *bench) error {
	f := reporting(9)
	rt := router.New(router.Config{Scorers: []router.Scorer{b.Scorer}, Tie: -1})
	for i, q := range b.requests(f) {
		q.Now = f.now
		q.Tried = []*registry.Replica{f.replicas[0], f.replicas[i]}
		left := slices.DeleteFunc(slices.Clone(f.replicas), func(r *registry.Replica) bool { return slices.Contains(q.Tried, r) })
		var want []float64
		if !b.Varies {
			want = score(b.Scorer, q, left)
		}
		q.Trace = new(router.Trace)
		d, err := rt.Pick(q, f.replicas)
		if err != nil {
			if !errors.Is(err, router.ErrNoReplica) && !errors.Is(err, router.ErrNoRoom) {
				return wrong("Pick = %w", err)
			}
			continue
		}
		d.Lease.Release()
		for _, v := range q.Trace.Replicas {
			at := slices.Index(left, v.Replica)
			if at < 0 || b.Varies {
				continue
			}
			if len(v.Costs) != 1 || !near(v.Costs[0], want[at], 0) {
				return wrong("%s costs %v in a Router, want %v as outside of it", v.Replica.Name(), v.Costs, want[at])
			}
		}
	}
	return nil
}

func allocations(b *bench) error {
	if b.Allocates {
		return errLeftOut
	}
	return b.each(func(f *fleet, q *router.Request) error {
		cost := make([]float64, len(f.replicas))
		if n := testing.AllocsPerRun(20, func() { b.Scorer.Score(cost, q, f.replicas) }); n > 0 {
			return wrong("%v allocations per call, want none", n)
		}
		return nil
	})
}
