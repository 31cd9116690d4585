package main

import (
	"testing"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/router/routertest"
)

func TestSpotTax(t *testing.T) {
	pool, err := registry.NewPool(registry.PoolConfig{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	pool.Add(registry.ReplicaConfig{Name: "steady", URL: "http://10.0.0.1:8000", Zone: "on-demand"})
	pool.Add(registry.ReplicaConfig{Name: "cheap", URL: "http://10.0.0.2:8000", Zone: "spot"})
	cost := make([]float64, 2)
	spotTax{perToken: 0.001}.Score(cost, &router.Request{Prompt: 1500, Output: 500}, pool.Replicas())
	if cost[0] != 0 || cost[1] != 2 {
		t.Errorf("cost = %v, want [0 2]: 2,000 tokens at 1 ms each, for spot only", cost)
	}
	rt := router.New(router.Config{Scorers: []router.Scorer{spotTax{perToken: 0.001}}})
	for key := range uint64(100) {
		d, err := rt.Pick(&router.Request{Key: key, Prompt: 1500, Output: 500}, pool.Replicas())
		if err != nil {
			t.Fatal(err)
		}
		if d.Replica.Name() != "steady" {
			t.Fatalf("Pick with key %d = %s, want steady", key, d.Replica.Name())
		}
		d.Lease.Release()
	}
}

// TestSpotTaxConforms: what a router asks of any rule.
func TestSpotTaxConforms(t *testing.T) {
	routertest.Run(t, func(*testing.T) routertest.Subject {
		return routertest.Subject{Scorer: spotTax{perToken: 0.001}}
	})
}
