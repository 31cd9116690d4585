package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/registry"
)

func newPool(t *testing.T, name string, replicas ...string) *registry.Pool {
	t.Helper()
	p, err := registry.NewPool(registry.PoolConfig{Name: name, KVTokens: 1000, Headroom: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range replicas {
		if _, err := p.Add(registry.ReplicaConfig{Name: r, URL: "http://192.0.2." + string(rune('1'+i)) + ":8000"}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func check(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	for series, v := range want {
		if got[series] != v {
			t.Errorf("%s = %q, want %q", series, got[series], v)
		}
	}
}

func TestWatchPools(t *testing.T) {
	p := newPool(t, "main", "a", "b")
	m := metrics.New(metrics.Config{})
	m.Watch(func() []*registry.Pool { return []*registry.Pool{p} }, nil)
	a, b := p.Replicas()[0], p.Replicas()[1]
	lease, ok := a.Lease(registry.Claim{Prefill: 100, KV: 150, Context: 120})
	if !ok {
		t.Fatal("no room for the lease")
	}
	a.Report(registry.State{At: time.Now(), Running: 3, Waiting: 2, KVUsage: 0.5, Preemptions: 7})
	b.Drain()
	got := scrape(t, m)
	check(t, got, map[string]string{
		`expediter_replica_requests{pool="main",replica="a"}`:                   "1",
		`expediter_replica_requests{pool="main",replica="b"}`:                   "0",
		`expediter_replica_prefilling{pool="main",replica="a"}`:                 "1",
		`expediter_replica_prefill_tokens{pool="main",replica="a"}`:             "100",
		`expediter_replica_kv_tokens{pool="main",replica="a"}`:                  "150",
		`expediter_replica_usable_kv_tokens{pool="main",replica="a"}`:           "750",
		`expediter_replica_routable{pool="main",replica="a"}`:                   "1",
		`expediter_replica_routable{pool="main",replica="b"}`:                   "0",
		`expediter_replica_draining{pool="main",replica="b"}`:                   "1",
		`expediter_replica_ejected{pool="main",replica="b"}`:                    "0",
		`expediter_replica_reported_running{pool="main",replica="a"}`:           "3",
		`expediter_replica_reported_waiting{pool="main",replica="a"}`:           "2",
		`expediter_replica_reported_kv_usage{pool="main",replica="a"}`:          "0.5",
		`expediter_replica_reported_preemptions_total{pool="main",replica="a"}`: "7",
		`expediter_replica_reported_running{pool="main",replica="b"}`:           "", // it never reported
	})
	lease.Release()
	p.Remove(b)
	got = scrape(t, m)
	check(t, got, map[string]string{`expediter_replica_requests{pool="main",replica="a"}`: "0"})
	for s := range got {
		if strings.Contains(s, `replica="b"`) {
			t.Errorf("series %s of a replica that was removed", s)
		}
		if strings.Contains(s, "192.0.2") {
			t.Errorf("series %s shows an address", s)
		}
	}
}

func TestWatchLines(t *testing.T) {
	m := metrics.New(metrics.Config{})
	m.Watch(nil, func() map[string]admission.Stats {
		return map[string]admission.Stats{
			"main": {Waiting: 5, WaitingTokens: 900, FreeRate: 12.5, ByTier: []admission.TierStats{
				{Tier: 0, Waiting: 1, Tenants: 1}, {Tier: 2, Waiting: 2, Tenants: 2}, {Tier: 16, Waiting: 1, Tenants: 1}, {Tier: 99, Waiting: 1, Tenants: 1}}},
			"idle": {},
		}
	})
	check(t, scrape(t, m), map[string]string{
		`expediter_queue_waiting{pool="main"}`:                   "5",
		`expediter_queue_waiting{pool="idle"}`:                   "0",
		`expediter_queue_waiting_tokens{pool="main"}`:            "900",
		`expediter_queue_free_tokens_per_second{pool="main"}`:    "12.5",
		`expediter_queue_tier_waiting{pool="main",tier="0"}`:     "1",
		`expediter_queue_tier_waiting{pool="main",tier="2"}`:     "2",
		`expediter_queue_tier_waiting{pool="main",tier="other"}`: "2",
		`expediter_queue_tier_tenants{pool="main",tier="2"}`:     "2",
	})
}

// A later Watch takes over, and two pools of one name do not spoil a scrape.
func TestWatchAgain(t *testing.T) {
	first, second, twin := newPool(t, "first", "a"), newPool(t, "second", "a"), newPool(t, "second", "a")
	m := metrics.New(metrics.Config{})
	m.Watch(func() []*registry.Pool { return []*registry.Pool{first} }, func() map[string]admission.Stats {
		return map[string]admission.Stats{"first": {}}
	})
	m.Watch(func() []*registry.Pool { return []*registry.Pool{second, twin} }, nil)
	seen := false
	for s := range scrape(t, m) {
		if strings.Contains(s, `"first"`) {
			t.Errorf("series %s of the earlier Watch", s)
		}
		seen = seen || strings.HasPrefix(s, `expediter_replica_routable{pool="second"`)
	}
	if !seen {
		t.Error("no series of the later Watch")
	}
}
