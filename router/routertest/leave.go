package routertest

import (
	"reflect"
	"runtime"
	"slices"
	"time"
	"weak"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

// fields returns copies of what a request says, by name. Value is the
// Scorer's own, and may change.
func fields(q *router.Request) map[string]any {
	all := make(map[string]any)
	v := reflect.ValueOf(*q)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Name != "Value" {
			all[f.Name] = v.Field(i).Interface()
		}
	}
	all["Blocks"], all["Cached"], all["Tried"] = slices.Clone(q.Blocks), slices.Clone(q.Cached), slices.Clone(q.Tried)
	return all
}

func leavesRequest(b *bench) error {
	return b.each(func(f *fleet, q *router.Request) error {
		before := fields(q)
		score(b.Scorer, q, f.replicas)
		for name, now := range fields(q) {
			if !reflect.DeepEqual(now, before[name]) {
				return wrong("Request.%s changed from %v to %v", name, before[name], now)
			}
		}
		return nil
	})
}

// look is what can be seen of a replica.
type look struct {
	load               registry.Load
	state              *registry.State
	routable, draining bool
	ejected            registry.Reason
	failures           int
	failed, progress   time.Time
	held, pinned       int
	generation         uint64
	full, usable       int
	prefill            float64
	step               time.Duration
}

func lookAt(r *registry.Replica, now time.Time) look {
	l := look{
		load: r.Load(), state: r.State(), routable: r.Routable(now), draining: r.Draining(), progress: r.LastProgress(),
		generation: r.Generation(), prefill: r.PrefillRate(), step: r.StepTime(),
	}
	l.ejected, _ = r.Ejected()
	l.failures, l.failed = r.Failures()
	l.held, l.pinned, _ = r.Adapters()
	l.full, l.usable = r.Capacity()
	return l
}

func leavesReplicas(b *bench) error {
	return b.each(func(f *fleet, q *router.Request) error {
		given := slices.Clone(f.replicas)
		members := f.pool.Replicas()
		before := make([]look, len(given))
		for i, r := range given {
			before[i] = lookAt(r, f.now)
		}
		score(b.Scorer, q, given)
		if !slices.Equal(given, f.replicas) || !slices.Equal(members, f.pool.Replicas()) {
			return wrong("the replicas are others, or in another order")
		}
		for i, r := range given {
			if now := lookAt(r, f.now); now != before[i] {
				return wrong("replica %d changed from %+v to %+v", i, before[i], now)
			}
		}
		return nil
	})
}

// traces are weak pointers to the memory of one call's arguments.
type traces struct {
	cost     weak.Pointer[float64]
	replicas weak.Pointer[*registry.Replica]
	blocks   weak.Pointer[uint64]
	cached   weak.Pointer[int]
	request  weak.Pointer[router.Request]
}

// keepsNoArguments: after a call, nothing refers to its arguments.
func keepsNoArguments(b *bench) error {
	f := newFleet(70)
	tr := b.leaveTraces(f)
	for range 3 { // what a sync.Pool holds goes with the second
		runtime.GC()
	}
	kept := ""
	switch {
	case tr.cost.Value() != nil:
		kept = "costs"
	case tr.replicas.Value() != nil:
		kept = "replicas"
	case tr.request.Value() != nil:
		kept = "request"
	case tr.blocks.Value() != nil:
		kept = "Request.Blocks"
	case tr.cached.Value() != nil:
		kept = "Request.Cached"
	}
	runtime.KeepAlive(b)
	if kept != "" {
		return wrong("its %s cannot be collected after the call", kept)
	}
	return nil
}

//go:noinline
func (b *bench) leaveTraces(f *fleet) traces {
	q := b.requests(f)[3]
	replicas, cost := slices.Clone(f.replicas), make([]float64, len(f.replicas))
	b.Scorer.Score(cost, q, replicas)
	return traces{
		weak.Make(&cost[0]), weak.Make(&replicas[0]), weak.Make(&q.Blocks[0]), weak.Make(&q.Cached[0]), weak.Make(q),
	}
}
