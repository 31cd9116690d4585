package router

import (
	"time"

	"github.com/expediterhq/expediter/registry"
)

// AdapterLoad charges the loading of a LoRA adapter to replicas that do not
// seem to have it. vLLM loads inside a step, which stalls every request there:
//
//	load · (1 + α·B)
//
// with B the requests on the replica. It is charged twice when no slot is
// free, as the adapter that has to go will be loaded again. When requests in
// flight hold all slots, the engine also defers the newcomer until one of
// them ends, which is half an answer's time away. The zero value is ready.
type AdapterLoad struct {
	Cost  time.Duration // one load. If zero, registry.Pool.AdapterLoad, which is learned
	Stall float64       // α, as in MarginalCost. If zero, 0.2; below zero, nothing
}

// Score adds the cost of loading req.Adapter.
func (s AdapterLoad) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	if req.Adapter == "" {
		return
	}
	orElse(&s.Stall, 0.2)
	for i, r := range replicas {
		if r.Holds(req.Adapter) {
			continue
		}
		load := s.Cost
		if load == 0 {
			load = r.Pool().AdapterLoad()
		}
		c := load.Seconds() * (1 + max(s.Stall, 0)*float64(req.Load(i, r).Requests))
		held, pinned, slots := r.Adapters()
		if held >= slots {
			c *= 2
		}
		if pinned >= slots {
			c += float64(max(0, req.Output)) / 2 * r.StepTime().Seconds()
		}
		cost[i] += c
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
// ejected, or not yet: no more than half of a pool is, and one that fails at
// once has little in flight and would look idle. Some time after its last
// failure a replica is tried again as if nothing had happened. The zero value
// is ready.
type Suspicion struct {
	Cost  time.Duration // per failure in a row. If zero, 1 s
	Pause time.Duration // after the last failure, until it is tried again. If zero, 10 s
}

// Score adds Cost times the failures in a row.
func (s Suspicion) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	if s.Cost == 0 {
		s.Cost = time.Second
	}
	if s.Pause == 0 {
		s.Pause = 10 * time.Second
	}
	for i, r := range replicas {
		if n, last := r.Failures(); n > 0 && req.time().Sub(last) < s.Pause {
			cost[i] += float64(n) * s.Cost.Seconds()
		}
	}
}
