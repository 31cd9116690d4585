package registry_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/expediterhq/expediter/registry"
)

func ExampleOpenFile() {
	dir, err := os.MkdirTemp("", "pools")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "pools.json")
	doc := `{"pools": [{"name": "llama-8b", "replicas": [{"url": "http://10.0.0.1:8000"}]}]}`
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		panic(err)
	}
	reg, err := registry.OpenFile(registry.FileConfig{Path: path})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- reg.Run(ctx) }() // follows changes of the file
	p, ok := reg.Pool("llama-8b")
	fmt.Println(ok, len(p.Replicas()))
	cancel()
	fmt.Println(<-done)
	// Output:
	// true 1
	// context canceled
}

func ExampleParsePools() {
	_, err := registry.ParsePools([]byte(`{"pools": [{"name": "a", "headroom": 1.5, "replicas": [{"name": "x", "url": "ftp://x"}]}]}`))
	fmt.Println(err)
	// Output:
	// registry: pool "a": headroom: expected a share from 0 to below 1, or -1 for none, got 1.5
	// registry: pool "a": replica "x": url: expected scheme http or https, got ftp
}

func ExampleDNS() {
	pool, err := registry.NewPool(registry.PoolConfig{Name: "llama-8b"})
	if err != nil {
		panic(err)
	}
	d, err := registry.NewDNS(pool, registry.DNSConfig{Host: "vllm.default.svc.cluster.local", Port: 8000})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a gateway would let it run
	fmt.Println(d.Run(ctx))
	// Output: context canceled
}

func ExampleReplica_Drain() {
	pool, _ := registry.NewPool(registry.PoolConfig{Name: "p"})
	r, _ := pool.Add(registry.ReplicaConfig{URL: "http://10.0.0.1:8000"})
	r.Drain() // what is in flight there goes on
	fmt.Println(r.Routable(time.Now()))
	r.Resume()
	fmt.Println(r.Routable(time.Now()))
	// Output:
	// false
	// true
}
