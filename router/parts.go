package router

import (
	"time"

	"github.com/expediterhq/expediter/registry"
)

// AdapterLoad charges the loading of a LoRA adapter to replicas that do not
// seem to have it: vLLM loads inside a step, which stalls every request of
// the replica. When no slot is free the adapter that has to go will be loaded
// again later, which is charged too. The zero value is ready.
type AdapterLoad struct {
	Cost time.Duration // one load. If zero, 100 ms: 84 MB of weights from disk to GPU
}

// Score adds the cost of loading req.Adapter.
func (s AdapterLoad) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	if req.Adapter == "" {
		return
	}
	if s.Cost == 0 {
		s.Cost = 100 * time.Millisecond
	}
	load := s.Cost.Seconds()
	for i, r := range replicas {
		if r.Holds(req.Adapter) {
			continue
		}
		cost[i] += load
		if held, slots := r.Adapters(); held >= slots {
			cost[i] += load
		}
	}
}

// Zone charges for crossing zones.
type Zone struct {
	Local string        // where the gateway runs; empty charges nobody
	Cost  time.Duration // added for replicas elsewhere. If zero, 2 ms
}

// Score adds Cost for every replica with another, known zone.
func (s Zone) Score(cost []float64, _ *Request, replicas []*registry.Replica) {
	if s.Local == "" {
		return
	}
	if s.Cost == 0 {
		s.Cost = 2 * time.Millisecond
	}
	for i, r := range replicas {
		if z := r.Zone(); z != "" && z != s.Local {
			cost[i] += s.Cost.Seconds()
		}
	}
}

// Suspicion charges replicas whose last requests failed and that are not
// ejected, or not yet: one that fails at once has little in flight, and
// would look idle. The zero value is ready.
type Suspicion struct {
	Cost time.Duration // per failure in a row. If zero, 1 s
}

// Score adds Cost times the failures in a row.
func (s Suspicion) Score(cost []float64, _ *Request, replicas []*registry.Replica) {
	if s.Cost == 0 {
		s.Cost = time.Second
	}
	for i, r := range replicas {
		if n := r.Failures(); n > 0 {
			cost[i] += float64(min(n, 10)) * s.Cost.Seconds()
		}
	}
}
