package fleet_test

import (
	"fmt"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/sim/fleet"
)

// leastContext is a scorer to be tried out: it sends requests where the
// fewest tokens of context are read per step.
type leastContext struct{}

func (leastContext) Score(cost []float64, req *router.Request, replicas []*registry.Replica) {
	for i, r := range replicas {
		cost[i] += float64(req.Load(i, r).Context)
	}
}

func ExampleRun() {
	trace := fleet.Workload{Rate: 40, Duration: 20 * time.Second, Groups: 30, Zipf: 1, Shared: 2048, Output: 200}.Trace(1)
	report, err := fleet.Run(fleet.Config{
		Replicas: fleet.Uniform(4, sim.Llama8BA100()),
		Router: func(seed uint64) *router.Router {
			return router.New(router.Config{Scorers: []router.Scorer{leastContext{}}})
		},
		SLO: fleet.SLO{TTFT: 400 * time.Millisecond, TPOT: 60 * time.Millisecond},
	}, trace)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("all finished:", report.Finished == report.Requests)
	fmt.Println("goodput above 99%:", report.Goodput > 0.99)
	fmt.Println("hit rate above 70%:", report.HitRate > 0.7)
	// Output:
	// all finished: true
	// goodput above 99%: true
	// hit rate above 70%: true
}
