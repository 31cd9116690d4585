package router_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

var t0 = time.Unix(1_700_000_000, 0)

func newPool(t testing.TB, n int, cfg registry.PoolConfig) *registry.Pool {
	t.Helper()
	cfg.Name = "test"
	p, err := registry.NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := p.Add(registry.ReplicaConfig{Name: fmt.Sprintf("r%d", i), URL: fmt.Sprintf("http://10.0.0.%d:8000", i+1)}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestBurstSpreads(t *testing.T) {
	p := newPool(t, 8, registry.PoolConfig{KVTokens: 400_000})
	rt := router.New(router.Config{})
	for i := range 256 {
		if _, err := rt.Pick(&router.Request{Key: uint64(i) * 7919, Prompt: 1800, Output: 300, Now: t0}, p.Replicas()); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range p.Replicas() {
		if got := r.Load().Requests; got != 32 {
			t.Errorf("%s has %d of 256 equal requests, want 32", r.Name(), got)
		}
	}
}

func TestErrors(t *testing.T) {
	rt := router.New(router.Config{})
	p := newPool(t, 2, registry.PoolConfig{KVTokens: 1000})
	if _, err := rt.Pick(&router.Request{Prompt: 2000, Now: t0}, p.Replicas()); !errors.Is(err, router.ErrTooLarge) || !errors.Is(err, router.ErrNoReplica) {
		t.Errorf("too large: Pick = %v, want ErrTooLarge, which is ErrNoReplica", err)
	}
	if _, err := rt.Pick(&router.Request{Prompt: 20, Now: t0, Tried: p.Replicas()}, p.Replicas()); err != router.ErrNoReplica {
		t.Errorf("all tried: Pick = %v, want ErrNoReplica", err)
	}
	if _, err := rt.Pick(&router.Request{Prompt: 20, Now: t0}, nil); err != router.ErrNoReplica {
		t.Errorf("no replicas: Pick = %v, want ErrNoReplica", err)
	}
	for range 2 {
		if _, err := rt.Pick(&router.Request{Prompt: 800, Now: t0}, p.Replicas()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rt.Pick(&router.Request{Prompt: 800, Now: t0}, p.Replicas()); err != router.ErrNoRoom {
		t.Errorf("full: Pick = %v, want ErrNoRoom", err)
	}
}

// TestHugeClaim: a claim of more than an int of 32 bits is a large one.
func TestHugeClaim(t *testing.T) {
	p := newPool(t, 1, registry.PoolConfig{})
	c := (&router.Request{Prompt: 1000, Output: math.MaxInt32, Sequences: 128}).Claim(p.Replicas()[0])
	if c.KV < math.MaxInt32/2 || c.Context < math.MaxInt32/4 {
		t.Errorf("Claim = %+v, want a large one", c)
	}
}
