package router_test

import (
	"errors"
	"fmt"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

func examplePool() *registry.Pool {
	p, err := registry.NewPool(registry.PoolConfig{Name: "llama-8b", KVTokens: 420_000})
	if err != nil {
		panic(err)
	}
	for i := range 3 {
		if _, err := p.Add(registry.ReplicaConfig{Name: fmt.Sprintf("gpu-%d", i), URL: fmt.Sprintf("http://10.0.0.%d:8000", i+1)}); err != nil {
			panic(err)
		}
	}
	return p
}

func ExampleRouter_Pick() {
	pool := examplePool()
	rt := router.New(router.Config{})
	req := &router.Request{
		Key: 42, Prompt: 1800, Output: 300,
		Cached: []int{0, 1600, 0}, BlockSize: 16, // gpu-1 holds most of the prompt
	}
	d, err := rt.Pick(req, pool.Replicas())
	switch {
	case errors.Is(err, router.ErrNoRoom):
		fmt.Println("wait in line")
	case err != nil:
		fmt.Println("give up:", err)
	default:
		defer d.Lease.Release() // on every path
		fmt.Println(d.Replica.Name(), d.Cached, d.Replica.Load().KV)
	}
	// Output: gpu-1 1600 500
}

// A policy of one's own is a Scorer, tested like any function.
func ExampleScorerFunc() {
	keepFree := router.ScorerFunc(func(cost []float64, req *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			if r.Name() == "gpu-0" && req.Value != "premium" {
				cost[i] = router.Never
			}
		}
	})
	pool := examplePool()
	rt := router.New(router.Config{Scorers: append(router.Default(), keepFree)})
	d, _ := rt.Pick(&router.Request{Prompt: 100, Value: "basic"}, pool.Replicas()[:2])
	fmt.Println(d.Replica.Name())
	// Output: gpu-1
}

func ExampleTrace() {
	pool := examplePool()
	far := router.ScorerFunc(func(cost []float64, _ *router.Request, replicas []*registry.Replica) {
		for i := range replicas {
			cost[i] += float64(i) / 100
		}
	})
	req := &router.Request{Prompt: 100, Trace: new(router.Trace)}
	if _, err := router.New(router.Config{Scorers: []router.Scorer{far}}).Pick(req, pool.Replicas()); err != nil {
		panic(err)
	}
	for _, v := range req.Trace.Replicas {
		fmt.Printf("%s %s %.2f\n", v.Replica.Name(), v.Outcome, v.Cost)
	}
	// Output:
	// gpu-0 chosen 0.00
	// gpu-1 dearer 0.01
	// gpu-2 dearer 0.02
}

func ExampleByName() {
	rt, err := router.ByName("leastrequest", 0)
	if err != nil {
		panic(err)
	}
	pool := examplePool()
	pool.Replicas()[0].Lease(registry.Claim{KV: 100})
	pool.Replicas()[2].Lease(registry.Claim{KV: 100})
	d, _ := rt.Pick(&router.Request{Prompt: 100}, pool.Replicas())
	fmt.Println(d.Replica.Name())
	// Output: gpu-1
}

func ExampleMarginalCost_Terms() {
	pool := examplePool()
	r := pool.Replicas()[0]
	r.Lease(registry.Claim{Prefill: 1000, KV: 1300, Context: 1150})
	t := router.MarginalCost{}.Terms(&router.Request{Prompt: 1000, Output: 200}, 0, r)
	fmt.Printf("wait %.0f ms, stall %.0f ms\n", 1000*t.Wait, 1000*t.Stall)
	// Output: wait 200 ms, stall 40 ms
}

func ExampleZone() {
	pool, _ := registry.NewPool(registry.PoolConfig{Name: "p"})
	_, _ = pool.Add(registry.ReplicaConfig{Name: "far", URL: "http://10.1.0.1:8000", Zone: "b"})
	_, _ = pool.Add(registry.ReplicaConfig{Name: "near", URL: "http://10.2.0.1:8000", Zone: "a"})
	rt := router.New(router.Config{Scorers: append(router.Default(), router.Zone{Local: "a"})})
	d, _ := rt.Pick(&router.Request{Prompt: 100}, pool.Replicas())
	fmt.Println(d.Replica.Name())
	// Output: near
}
