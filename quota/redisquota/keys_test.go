package redisquota_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// allKeys returns the keys of a server.
func allKeys(t *testing.T, addr string) (*redis.Client, []string) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { c.Close() })
	keys, err := c.Keys(context.Background(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return c, keys
}

// checkKeys fails for keys that would never expire and returns how many there
// are, without those of probes.
func checkKeys(t *testing.T, addr string) int {
	t.Helper()
	c, keys := allKeys(t, addr)
	n := 0
	for _, k := range keys {
		ttl, err := c.PTTL(context.Background(), k).Result()
		if err != nil {
			t.Fatal(err)
		}
		if ttl == -1 {
			t.Errorf("key %q has no expiry", k)
		}
		if !strings.HasSuffix(k, ":probe") {
			n++
		}
	}
	return n
}

// Every way a key can come to be leaves it with an expiry.
func TestKeysExpire(t *testing.T) {
	ctx := context.Background()
	limit := quota.Limit{Concurrency: 2, Windows: []quota.Window{{Name: "w", Burst: 1000}, {Name: "v", Rate: 1, Burst: 1000}}}
	for _, tt := range []struct {
		name string
		do   func(*redisquota.Store, quota.Reservation) error
	}{
		{"reserve", func(s *redisquota.Store, r quota.Reservation) error { return s.Reserve(ctx, r) }},
		{"settle unknown", func(s *redisquota.Store, r quota.Reservation) error { return s.Settle(ctx, r, 5) }},
		{"renew unknown", func(s *redisquota.Store, r quota.Reservation) error { return s.Renew(ctx, []quota.Reservation{r}) }},
		{"balance", func(s *redisquota.Store, r quota.Reservation) error { _, err := s.Balance(ctx, r.Tenant); return err }},
		{"reserve and settle", func(s *redisquota.Store, r quota.Reservation) error {
			if err := s.Reserve(ctx, r); err != nil {
				return err
			}
			return s.Settle(ctx, r, 5)
		}},
		{"refused", func(s *redisquota.Store, r quota.Reservation) error {
			r.Cost = 1000
			if err := s.Reserve(ctx, r); err != nil {
				return err
			}
			r.ID, r.Limit.Windows = "x", []quota.Window{{Name: "w", Rate: 5, Burst: 1000}}
			if err := s.Reserve(ctx, r); err == nil {
				return fmt.Errorf("second reservation fits")
			}
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := redistest.Start(t)
			s := open(t, redisquota.Config{}, server.Addr)
			if err := tt.do(s, quota.Reservation{ID: "id", Tenant: "t", Limit: limit, Cost: 10}); err != nil {
				t.Fatal(err)
			}
			if n := checkKeys(t, server.Addr); n > 2 {
				t.Errorf("%d keys for one tenant", n)
			}
		})
	}
}

func TestH6OneSlotPerTenant(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	s := open(t, redisquota.Config{}, cluster.Addrs...)
	ctx := context.Background()
	tenants := []string{"", "a", "{a}", "a}{b", "{}", "{user}.x", "{user}.y", "with space", "日本", "\x00\xff", strings.Repeat("{", 200)}
	for i, tenant := range tenants {
		r := quota.Reservation{ID: "{other}", Tenant: tenant, Cost: 1, Limit: quota.Limit{Windows: []quota.Window{{Name: "{w}", Burst: 10}}}}
		for range i + 1 {
			r.ID += "x"
			if err := s.Reserve(ctx, r); i < 10 && err != nil {
				t.Fatalf("tenant %q: %v", tenant, err)
			}
		}
		b, err := s.Balance(ctx, tenant)
		if want := min(i+1, 10); err != nil || b.Running != want {
			t.Errorf("tenant %q has %d running, want %d: %v", tenant, b.Running, want, err)
		}
	}
	slots := map[string]map[string]bool{}
	for _, node := range cluster.Nodes {
		_, keys := allKeys(t, node.Addr)
		for _, k := range keys {
			tenant := k[:strings.LastIndex(k, ":")]
			if slots[tenant] == nil {
				slots[tenant] = map[string]bool{}
			}
			slots[tenant][node.Do("CLUSTER", "KEYSLOT", k)] = true
		}
		checkKeys(t, node.Addr)
	}
	if len(slots) != len(tenants) {
		t.Errorf("keys of %d tenants, want %d", len(slots), len(tenants))
	}
	for tenant, in := range slots {
		if len(in) != 1 {
			t.Errorf("%q is in %d slots", tenant, len(in))
		}
	}
}

func TestNewRefuses(t *testing.T) {
	good := redisquota.Client(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}})
	retries := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
	deaf := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRetries: -1})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	for _, c := range []redis.UniversalClient{good, retries, deaf, ring} {
		t.Cleanup(func() { c.Close() })
	}
	for _, tt := range []struct {
		name   string
		client redis.UniversalClient
		cfg    redisquota.Config
		want   []string // parts of the error; none = no error
	}{
		{"good", good, redisquota.Config{Policy: redisquota.Closed}, nil},
		{"good share", good, redisquota.Config{Policy: redisquota.LocalShare, Share: 0.5}, nil},
		{"no policy", good, redisquota.Config{}, []string{"Policy"}},
		{"unknown policy", good, redisquota.Config{Policy: 9}, []string{"Policy"}},
		{"no share", good, redisquota.Config{Policy: redisquota.LocalShare}, []string{"Share"}},
		{"share above one", good, redisquota.Config{Policy: redisquota.LocalShare, Share: 1.5}, []string{"Share"}},
		{"all mistakes at once", retries, redisquota.Config{Prefix: "{x}", Timeout: -1, Keep: time.Hour, Backlog: -1},
			[]string{"Policy", "Prefix", "Timeout", "Keep", "Backlog", "MaxRetries"}},
		{"client that retries", retries, redisquota.Config{Policy: redisquota.Open}, []string{"MaxRetries is 3"}},
		{"client deaf to contexts", deaf, redisquota.Config{Policy: redisquota.Open}, []string{"ContextTimeoutEnabled"}},
		{"ring", ring, redisquota.Config{Policy: redisquota.Open}, []string{"Ring"}},
		{"no client", nil, redisquota.Config{Policy: redisquota.Open}, []string{"no client"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := redisquota.New(tt.client, tt.cfg)
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			for _, part := range tt.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("New = %v, want it to name %q", err, part)
				}
			}
		})
	}
}
