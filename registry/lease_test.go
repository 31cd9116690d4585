package registry_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

var t0 = time.Unix(1_700_000_000, 0)

func newReplica(t testing.TB, cfg registry.PoolConfig) *registry.Replica {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "test"
	}
	p, err := registry.NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Add(registry.ReplicaConfig{Name: "a", URL: "http://10.0.0.1:8000"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLeaseGivesBackEverything(t *testing.T) {
	r := newReplica(t, registry.PoolConfig{KVTokens: 1000})
	l, ok := r.LeaseAt(registry.Claim{Prefill: 300, KV: 500, Context: 600, Sequences: 2}, t0)
	if !ok {
		t.Fatal("Lease refused on an idle replica")
	}
	if got, want := r.Load(), (registry.Load{Requests: 2, Prefilling: 2, Prefill: 300, KV: 500, Context: 600}); got != want {
		t.Errorf("Load = %+v, want %+v", got, want)
	}
	l.FirstTokenAt(t0.Add(time.Second))
	l.FirstTokenAt(t0.Add(time.Second))
	l.Grow(10)
	if got, want := r.Load(), (registry.Load{Requests: 2, KV: 510, Context: 610}); got != want {
		t.Errorf("Load after the first token = %+v, want %+v", got, want)
	}
	copied := l
	l.Release()
	copied.Release()
	copied.Grow(5)
	copied.FirstToken()
	if got := r.Load(); got != (registry.Load{}) {
		t.Errorf("Load after Release = %+v, want zero", got)
	}
	var zero registry.Lease
	zero.FirstToken()
	zero.Grow(1)
	zero.Release()
}

func TestLeaseKeepsHeadroom(t *testing.T) {
	r := newReplica(t, registry.PoolConfig{KVTokens: 1000})
	if _, ok := r.Lease(registry.Claim{KV: 1001}); ok {
		t.Error("a claim above the whole capacity was granted")
	}
	whole, ok := r.Lease(registry.Claim{KV: 1000})
	if !ok {
		t.Error("a request alone was refused the whole capacity")
	}
	whole.Release()
	first, ok := r.Lease(registry.Claim{KV: 425})
	if !ok {
		t.Fatal("425 of 850 refused")
	}
	if _, ok := r.Lease(registry.Claim{KV: 426}); ok {
		t.Error("851 of 850 granted")
	}
	if _, ok := r.Lease(registry.Claim{KV: 425}); !ok {
		t.Error("850 of 850 refused")
	}
	first.Release()
}
