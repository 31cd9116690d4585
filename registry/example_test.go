package registry_test

import (
	"fmt"
	"time"

	"github.com/expediterhq/expediter/registry"
)

func ExamplePool() {
	pool, err := registry.NewPool(registry.PoolConfig{Name: "llama-70b", KVTokens: 38_544})
	if err != nil {
		panic(err)
	}
	a, _ := pool.Add(registry.ReplicaConfig{Name: "gpu-0", URL: "http://10.0.0.1:8000"})
	b, _ := pool.Add(registry.ReplicaConfig{Name: "gpu-1", URL: "http://10.0.0.2:8000"})
	pool.Remove(a)
	fmt.Println(len(pool.Replicas()), b.Slot(), pool.Slots())
	fmt.Println(pool.Capacity())
	// Output:
	// 1 1 2
	// 32762 true
}

func ExampleLease() {
	pool, _ := registry.NewPool(registry.PoolConfig{Name: "p", KVTokens: 10_000})
	r, _ := pool.Add(registry.ReplicaConfig{URL: "http://10.0.0.1:8000"})
	l, ok := r.Lease(registry.Claim{Prefill: 1800, KV: 2100, Context: 1950})
	fmt.Println(ok, r.Load().Prefill, r.Load().KV)
	l.FirstToken() // the prompt is computed
	fmt.Println(r.Load().Prefill, r.Load().KV)
	l.Grow(64) // a longer answer than expected
	fmt.Println(r.Load().KV)
	l.Release()
	l.Release() // harmless
	fmt.Println(r.Load().KV)
	// Output:
	// true 1800 2100
	// 0 2100
	// 2164
	// 0
}

func ExampleReplica_Estimate() {
	pool, _ := registry.NewPool(registry.PoolConfig{Name: "p"})
	r, _ := pool.Add(registry.ReplicaConfig{URL: "http://10.0.0.1:8000"})
	l, _ := r.Lease(registry.Claim{KV: 500})
	now := time.Now()
	r.Report(registry.State{At: now, Running: 4, KVUsage: 0.2, KVTokens: 10_000}) // 1 is ours, 3 are not
	l.Release()
	fmt.Println(r.Estimate(now).Requests, r.Estimate(now).KV)
	fmt.Println(r.Estimate(now.Add(time.Minute)).Requests) // too old to be used
	// Output:
	// 3 1500
	// 0
}

func ExampleReplica_Failed() {
	pool, _ := registry.NewPool(registry.PoolConfig{Name: "p"})
	r, _ := pool.Add(registry.ReplicaConfig{URL: "http://10.0.0.1:8000"})
	_, _ = pool.Add(registry.ReplicaConfig{URL: "http://10.0.0.2:8000"})
	now := time.Now()
	for range 3 {
		r.Failed(now)
	}
	fmt.Println(r.Routable(now), r.Routable(now.Add(10*time.Second)))
	trial, _ := r.LeaseAt(registry.Claim{}, now.Add(10*time.Second)) // the one request that may bring it back
	fmt.Println(r.Routable(now.Add(10 * time.Second)))
	trial.Succeeded(now.Add(11 * time.Second))
	trial.Release()
	fmt.Println(r.Routable(now.Add(11 * time.Second)))
	// Output:
	// false true
	// false
	// true
}

func ExampleStatic() {
	pool := func(urls ...string) *registry.Pool {
		p, _ := registry.NewPool(registry.PoolConfig{Name: "llama-8b"})
		for _, u := range urls {
			_, _ = p.Add(registry.ReplicaConfig{URL: u})
		}
		return p
	}
	reg, err := registry.NewStatic(pool("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
	if err != nil {
		panic(err)
	}
	p, _ := reg.Pool("llama-8b")
	kept := p.Replicas()[1]
	if err := reg.Replace(pool("http://10.0.0.2:8000", "http://10.0.0.3:8000")); err != nil {
		panic(err)
	}
	fmt.Println(len(p.Replicas()), p.Replicas()[0] == kept)
	// Output: 2 true
}
