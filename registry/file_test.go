package registry_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/registry/registrytest"
)

func fileWith(t testing.TB, path string, urls ...string) {
	t.Helper()
	type replica struct {
		URL string `json:"url"`
	}
	var rs []replica
	for _, u := range urls {
		rs = append(rs, replica{u})
	}
	data, err := json.Marshal(map[string]any{"pools": []any{map[string]any{"name": "llama-8b", "kv_tokens": 1000, "replicas": rs}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStaticIsARegistry(t *testing.T) {
	build := func(t *testing.T, urls ...string) *registry.Pool {
		p, err := registry.NewPool(registry.PoolConfig{Name: "p"})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range urls {
			if _, err := p.Add(registry.ReplicaConfig{URL: u}); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	registrytest.Run(t, func(t *testing.T) registrytest.Subject {
		s, err := registry.NewStatic(build(t, "http://192.0.2.1:8000"))
		if err != nil {
			t.Fatal(err)
		}
		return registrytest.Subject{Registry: s, Pool: "p", Set: func(urls ...string) {
			if err := s.Replace(build(t, urls...)); err != nil {
				t.Error(err)
			}
		}}
	})
}

func TestFileFollowsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "pools.json")
		fileWith(t, path, "http://a", "http://b")
		var errs atomic.Int64
		f, err := registry.OpenFile(registry.FileConfig{Path: path, OnError: func(error) { errs.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		p, ok := f.Pool("llama-8b")
		if !ok {
			t.Fatal("no pool")
		}
		b := p.Replicas()[1]
		l, _ := b.Lease(registry.Claim{KV: 100})

		look := func() {
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		fileWith(t, path, "http://b", "http://c")
		look()
		if rs := p.Replicas(); len(rs) != 2 || rs[0] != b || b.Load().KV != 100 {
			t.Errorf("members = %v after a change, want b kept with its load, and c", rs)
		}
		if err := os.WriteFile(path, []byte(`{"pools": [`), 0o600); err != nil {
			t.Fatal(err)
		}
		look()
		if len(p.Replicas()) != 2 || errs.Load() != 1 {
			t.Errorf("%d members and %d errors after half a file, want 2 and 1", len(p.Replicas()), errs.Load())
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		look()
		if len(p.Replicas()) != 2 || errs.Load() != 2 {
			t.Errorf("%d members and %d errors without a file, want 2 and 2", len(p.Replicas()), errs.Load())
		}
		fileWith(t, path, "http://c")
		look()
		if rs := p.Replicas(); len(rs) != 1 || rs[0].URL() != "http://c" {
			t.Errorf("members = %v, want c alone", rs)
		}
		l.Release()
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Run = %v, want context.Canceled", err)
		}
	})
}

func TestFileIsARegistry(t *testing.T) {
	registrytest.Run(t, func(t *testing.T) registrytest.Subject {
		path := filepath.Join(t.TempDir(), "pools.json")
		fileWith(t, path, "http://192.0.2.1:8000")
		f, err := registry.OpenFile(registry.FileConfig{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return registrytest.Subject{Registry: f, Pool: "llama-8b"}
	})
}

func TestOpenFileErrors(t *testing.T) {
	if _, err := registry.OpenFile(registry.FileConfig{Path: filepath.Join(t.TempDir(), "none.json")}); err == nil || !strings.Contains(err.Error(), "none.json") {
		t.Errorf("OpenFile of a missing file = %v, want an error that names it", err)
	}
}

func TestParsePools(t *testing.T) {
	pools, err := registry.ParsePools([]byte(`{"pools": [{
		"name": "llama-8b", "headroom": 0.2, "kv_tokens": 1000, "block_size": 32, "stale_after": "7s",
		"prefill_rate": 15000, "step_time": "20ms", "max_lora": 8, "adapter_load": "1s",
		"replicas": [{"name": "gpu-0", "url": "http://10.0.0.1:8000", "zone": "a", "weight": 2}, {"url": "http://10.0.0.2:8000"}]
	}, {"name": "empty"}]}`))
	if err != nil || len(pools) != 2 {
		t.Fatalf("ParsePools = %v, %v, want two pools", pools, err)
	}
	c := pools[0].Config()
	if c.Headroom != 0.2 || c.KVTokens != 1000 || c.BlockSize != 32 || c.StaleAfter != 7*time.Second ||
		c.PrefillRate != 15000 || c.StepTime != 20*time.Millisecond || c.MaxLoRA != 8 || c.AdapterLoad != time.Second {
		t.Errorf("Config = %+v, want what the file says", c)
	}
	r := pools[0].Replicas()[0]
	if r.Name() != "gpu-0" || r.URL() != "http://10.0.0.1:8000" || r.Zone() != "a" || r.Weight() != 2 || r.PrefillRate() != 30_000 {
		t.Errorf("replica = %q %q %q %v, prefill rate %v, want gpu-0 as in the file and 30,000", r.Name(), r.URL(), r.Zone(), r.Weight(), r.PrefillRate())
	}

	bad := []struct {
		name, doc string
		want      []string
	}{
		{"empty", "", []string{"line 1"}},
		{"not json", "{\n\n\"pools\": [}", []string{"line 3"}},
		{"unknown field", `{"pools": [{"name": "a", "headrom": 0.1}]}`, []string{"headrom"}},
		{"trailing", `{"pools": []} {}`, []string{"nothing after"}},
		{"duration", `{"pools": [{"name": "a", "stale_after": 5}]}`, []string{`duration like "5s"`}},
		{"all at once", `{"pools": [{"name": "a", "headroom": 2, "replicas": [{"url": "ftp://x"}]}, {"replicas": [{"url": "http://u:p@h"}]}]}`,
			[]string{"headroom", "scheme", "name:", "credentials"}},
		{"twice", `{"pools": [{"name": "a"}, {"name": "a"}]}`, []string{"taken"}},
		{"replica twice", `{"pools": [{"name": "a", "replicas": [{"url": "http://h"}, {"url": "http://h"}]}]}`, []string{"taken"}},
	}
	for _, tt := range bad {
		_, err := registry.ParsePools([]byte(tt.doc))
		if err == nil {
			t.Errorf("%s: ParsePools = nil error, want one that says %q", tt.name, tt.want)
			continue
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q does not say %q", tt.name, err, w)
			}
		}
	}
}

func FuzzParsePools(f *testing.F) {
	f.Add([]byte(`{"pools": [{"name": "a", "headroom": 0.2, "stale_after": "5s", "replicas": [{"url": "http://h:1"}]}]}`))
	f.Add([]byte(`{"pools": [{"name": "a", "headroom": 1e999}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		pools, err := registry.ParsePools(data)
		if err != nil {
			return
		}
		s, err := registry.NewStatic(pools...)
		if err != nil {
			t.Fatalf("NewStatic refused what ParsePools accepted: %v", err)
		}
		for _, p := range s.Pools() {
			if c := p.Config(); c.Headroom < 0 || c.Headroom >= 1 || c.StaleAfter <= 0 || c.BlockSize < 1 {
				t.Fatalf("Config = %+v, want a headroom from 0 to below 1, and StaleAfter and BlockSize above 0", c)
			}
			for _, r := range p.Replicas() {
				if !strings.HasPrefix(strings.ToLower(r.URL()), "http") {
					t.Fatalf("URL = %q, want http or https", r.URL())
				}
			}
		}
	})
}
