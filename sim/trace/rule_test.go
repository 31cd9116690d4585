package trace_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/sim/fleet"
	"github.com/expediterhq/expediter/sim/trace"
)

// leastUncached sends a request where the fewest tokens of prompt are left to compute.
type leastUncached struct{}

func (leastUncached) Score(cost []float64, req *router.Request, replicas []*registry.Replica) {
	for i, r := range replicas {
		cost[i] += float64(req.Uncached(r) + req.Load(i, r).Prefill)
	}
}

// A recorded trace plays as well as a made-up one.
func TestLeastUncached(t *testing.T) {
	chat, err := trace.Open("testdata/chat.jsonl", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := fleet.Run(fleet.Config{
		Replicas: fleet.Uniform(3, sim.Llama8BA100()),
		Router: func(uint64) *router.Router {
			return router.New(router.Config{Scorers: []router.Scorer{leastUncached{}}})
		},
		SLO: fleet.SLO{TTFT: 500 * time.Millisecond, TPOT: 50 * time.Millisecond},
	}, chat.Trace)
	if err != nil {
		t.Fatal(err)
	}
	if report.Goodput < 0.99 || report.HitRate < 0.65 || report.ShedRate > 0 || report.Preemptions > 0 {
		t.Errorf("not good enough:\n%v", report)
	}
}
