package router_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/router/routertest"
)

func TestScorersConform(t *testing.T) {
	for _, tt := range []struct {
		name   string
		make   func() router.Scorer
		varies bool
	}{
		{"marginal", func() router.Scorer { return router.MarginalCost{} }, false},
		{"marginal, parts off", func() router.Scorer { return router.MarginalCost{Stall: -1, Decode: -1, Crowd: -1} }, false},
		{"adapter load", func() router.Scorer { return router.AdapterLoad{} }, false},
		{"zone", func() router.Scorer { return router.Zone{Local: "a"} }, false},
		{"suspicion", func() router.Scorer { return router.Suspicion{} }, false},
		{"default", func() router.Scorer { return sum(router.Default()) }, false},
		{"roundrobin", func() router.Scorer { return new(router.RoundRobin) }, true},
		{"leastrequest", func() router.Scorer { return router.LeastRequest{} }, false},
		{"p2c", func() router.Scorer { return &router.PowerOfTwo{Seed: 1} }, true},
		{"blend", func() router.Scorer { return router.Blend{Prefix: 3, Queue: 2, KV: 2} }, false},
		{"sticky", func() router.Scorer { return router.Sticky{} }, false},
		{"sticky, decode bound", func() router.Scorer { return router.Sticky{DecodeBound: true, Wait: 0.001} }, false},
		{"lmetric", func() router.Scorer { return router.LMetric{} }, false},
		{"lmetric, own", func() router.Scorer { return router.LMetric{Own: true} }, false},
		{"chwbl", func() router.Scorer { return router.BoundedHash{} }, false},
		{"adapter load, given", func() router.Scorer { return router.AdapterLoad{Cost: time.Second, Stall: -1} }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			routertest.Run(t, func(*testing.T) routertest.Subject {
				return routertest.Subject{Scorer: tt.make(), Varies: tt.varies}
			})
		})
	}
}

// sum is several scorers as one.
func sum(parts []router.Scorer) router.ScorerFunc {
	return func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for _, s := range parts {
			s.Score(cost, req, replicas)
		}
	}
}
