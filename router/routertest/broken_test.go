package routertest

import (
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

type scoreFunc = func(cost []float64, req *router.Request, replicas []*registry.Replica)

// good is a Scorer that keeps all promises.
func good(cost []float64, req *router.Request, replicas []*registry.Replica) {
	for i, r := range replicas {
		cost[i] += float64(req.Load(i, r).Requests) + float64(req.Uncached(r))/1000
		if r.Zone() == "b" {
			cost[i] = router.Never
		}
	}
}

func TestGood(t *testing.T) {
	Run(t, func(*testing.T) Subject { return Subject{Scorer: router.ScorerFunc(good)} })
	Run(t, func(*testing.T) Subject {
		return Subject{Scorer: router.ScorerFunc(good), Varies: true, Allocates: true, Value: func() any { return "x" }}
	})
}

// brokenScorers each break one promise, which one check or more must notice.
var brokenScorers = []struct {
	name  string
	found string // by this check, if not by others too
	make  func() scoreFunc
}{
	{"not a number", "Numbers", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			load := req.Load(i, r)
			cost[i] += float64(load.Prefill) / float64(load.Requests)
		}
	})},
	{"less than any number", "Numbers", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			cost[i] += math.Log(float64(req.Load(i, r).Requests))
		}
	})},
	{"needs replicas", "Numbers", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		cost[len(req.Blocks)%len(replicas)]++
	})},
	{"needs reports", "Numbers", plainly(func(cost []float64, _ *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			cost[i] += r.State().KVUsage
		}
	})},
	{"needs Cached", "Numbers", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			cost[i] += float64(req.Prompt - req.Cached[r.Slot()])
		}
	})},
	{"sets", "Adds", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			cost[i] = float64(req.Load(i, r).Requests)
		}
	})},
	{"multiplies", "Adds", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			cost[i] *= 1 + float64(req.Load(i, r).Requests)
		}
	})},
	{"allows again", "KeepsNever", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			cost[i] = min(cost[i]+float64(req.Load(i, r).Requests), 1e300)
		}
	})},
	{"appends", "StaysInside", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		_ = append(cost, 1)
		good(cost, req, replicas)
	})},
	{"appends replicas", "StaysInside", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		if len(replicas) > 0 {
			_ = append(replicas, replicas[0])
		}
		good(cost, req, replicas)
	})},
	{"writes beyond", "StaysInside", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i := range cost[:cap(cost)] {
			cost[:cap(cost)][i]++
		}
	})},
	{"changes the request", "LeavesRequest", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		req.Output = max(req.Output, 1)
		good(cost, req, replicas)
	})},
	{"changes Cached", "LeavesRequest", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i := range req.Cached {
			req.Cached[i] = min(req.Cached[i], req.Prompt)
		}
		good(cost, req, replicas)
	})},
	{"sorts", "LeavesReplicas", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		slices.Reverse(replicas)
		good(cost, req, replicas)
		slices.Reverse(cost)
	})},
	{"takes leases", "LeavesReplicas", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for _, r := range replicas {
			r.Lease(req.Claim(r))
		}
	})},
	{"keeps the request", "KeepsNoArguments", func() scoreFunc {
		var last *router.Request
		return func(cost []float64, req *router.Request, replicas []*registry.Replica) {
			last = req
			good(cost, last, replicas)
		}
	}},
	{"keeps its costs", "KeepsNoArguments", func() scoreFunc {
		var last []float64
		return func(cost []float64, req *router.Request, replicas []*registry.Replica) {
			last = cost
			good(last, req, replicas)
		}
	}},
	{"keeps the replicas", "KeepsNoArguments", func() scoreFunc {
		var last []*registry.Replica
		return func(cost []float64, req *router.Request, replicas []*registry.Replica) {
			last = replicas
			good(cost, req, last)
		}
	}},
	{"keeps Blocks", "KeepsNoArguments", func() scoreFunc {
		var last []uint64
		return func(cost []float64, req *router.Request, replicas []*registry.Replica) {
			last = req.Blocks
			good(cost, req, replicas)
			_ = last
		}
	}},
	{"adds up its own", "SameAgain", func() scoreFunc {
		var mu sync.Mutex
		var calls float64
		return func(cost []float64, _ *router.Request, _ []*registry.Replica) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			for i := range cost {
				cost[i] += calls
			}
		}
	}},
	{"goes by the place", "OrderOfReplicas", plainly(func(cost []float64, _ *router.Request, _ []*registry.Replica) {
		for i := range cost {
			cost[i] += float64(i)
		}
	})},
	{"goes by the slot", "InRouter", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			cost[i] += float64(req.Load(min(r.Slot(), len(replicas)-1), r).KV)
		}
	})},
	{"waits", "DoesNotBlock", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		time.Sleep(time.Microsecond)
		good(cost, req, replicas)
	})},
	{"waits for ever", "DoesNotBlock", plainly(func([]float64, *router.Request, []*registry.Replica) { <-make(chan int) })},
	{"one at a time", "Concurrent", oneAtATime},
	{"allocates", "Allocations", plainly(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		seen := map[string]int{}
		for i, r := range replicas {
			seen[r.Name()+strconv.Itoa(i)]++
		}
		good(cost, req, replicas)
	})},
}

func plainly(f scoreFunc) func() scoreFunc { return func() scoreFunc { return f } }

// oneAtATime has one place for what a call works with. The lock is only there
// so that the race detector is not the one to notice.
func oneAtATime() scoreFunc {
	var mu sync.Mutex
	var key uint64
	return func(cost []float64, req *router.Request, _ []*registry.Replica) {
		mu.Lock()
		key = req.Key
		mu.Unlock()
		runtime.Gosched()
		mu.Lock()
		defer mu.Unlock()
		for i := range cost {
			cost[i] += float64(key % 1000)
		}
	}
}

func TestBrokenScorersAreFound(t *testing.T) {
	for _, tt := range brokenScorers {
		t.Run(tt.name, func(t *testing.T) {
			found := false
			for _, c := range checks {
				if c.name != tt.found {
					continue
				}
				found = true
				err := c.verdict(t, func(*testing.T) Subject { return Subject{Scorer: router.ScorerFunc(tt.make())} })
				if err == nil {
					t.Errorf("%s does not notice", c.name)
				}
				t.Logf("%s: %v", c.name, err)
			}
			if !found {
				t.Errorf("no check is called %s", tt.found)
			}
		})
	}
}
