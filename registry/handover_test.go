package registry_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/expediterhq/expediter/registry"
)

// street is a pool of a registry beside a name that can be followed.
type street struct {
	t     *testing.T
	names names
	reg   *registry.Static
	pool  *registry.Pool
}

func newStreet(t *testing.T) *street {
	t.Helper()
	s := &street{t: t, pool: newPool(t, 0, registry.PoolConfig{})}
	var err error
	if s.reg, err = registry.NewStatic(s.pool); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *street) dns(cfg registry.DNSConfig) *registry.DNS {
	s.t.Helper()
	cfg.Host, cfg.Resolver = "vllm.default.svc", &s.names
	if cfg.Port == 0 {
		cfg.Port = 8000
	}
	d, err := registry.NewDNS(s.pool, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// finds has d look at a name with these addresses.
func (s *street) finds(d *registry.DNS, addrs ...string) {
	s.t.Helper()
	s.names.set(nil, false, addrs...)
	if err := d.Look(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// list makes the replicas the listed ones of the pool.
func (s *street) list(cfg registry.PoolConfig, replicas ...registry.ReplicaConfig) {
	s.t.Helper()
	p := newPool(s.t, 0, cfg)
	for _, r := range replicas {
		if _, err := p.Add(r); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.reg.Replace(p); err != nil {
		s.t.Fatal(err)
	}
}

// check compares the members' addresses and zones, in order.
func (s *street) check(when string, want ...string) {
	s.t.Helper()
	var got []string
	for _, r := range s.pool.Replicas() {
		got = append(got, strings.TrimSpace(r.URL()+" "+r.Zone()))
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: members %q, want %q", when, got, want)
	}
}

const (
	url1 = "http://10.0.0.1:8000"
	url2 = "http://10.0.0.2:8000"
	url3 = "http://10.0.0.3:8000"
)

// TestReplaceKeepsFound: what a DNS found outlives a Replace, and has the
// pool's new configuration; what is listed goes before it.
func TestReplaceKeepsFound(t *testing.T) {
	s := newStreet(t)
	d := s.dns(registry.DNSConfig{Misses: 1})
	s.finds(d, "10.0.0.1", "10.0.0.2")
	one, two := s.pool.Replicas()[0], s.pool.Replicas()[1]
	l := lease(t, one, registry.Claim{KV: 10}, 0)
	s.list(registry.PoolConfig{KVTokens: 1000, Headroom: 0.5}, registry.ReplicaConfig{URL: url3})
	s.check("another is listed", url3, url1, url2)
	if full, usable := one.Capacity(); s.pool.Replicas()[1] != one || s.pool.Replicas()[2] != two || full != 1000 || usable != 500 {
		t.Errorf("other replicas, or a capacity of %d of which %d are usable", full, usable)
	}

	s.list(registry.PoolConfig{}, registry.ReplicaConfig{URL: url1, Zone: "b"})
	s.check("one is listed", url1+" b", url2)
	if listed := s.pool.Replicas()[0]; listed == one || listed.Slot() != one.Slot() || listed.Generation() == one.Generation() || one.Routable(t0) || one.Load().KV != 10 {
		t.Errorf("a listed replica of another name: same %v, slots %d and %d, generations %d and %d, ledger %+v", listed == one,
			listed.Slot(), one.Slot(), listed.Generation(), one.Generation(), one.Load())
	}
	l.Release()
	s.finds(d, "10.0.0.2")
	s.check("the name loses it", url1+" b", url2)
	s.finds(d, "10.0.0.1", "10.0.0.2")
	s.list(registry.PoolConfig{})
	s.check("no longer listed", url2)
	if err := d.Refill(); err != nil {
		t.Error(err)
	}
	s.check("refilled", url2, url1)

	again := s.pool.Replicas()[1]
	s.list(registry.PoolConfig{}, registry.ReplicaConfig{Name: again.Name(), URL: url1, Weight: 2})
	s.check("listed by its name", url1, url2)
	s.finds(d, "10.0.0.2")
	if s.check("the name loses it", url1, url2); s.pool.Replicas()[0] != again || again.Weight() != 2 {
		t.Error("a replica listed as it was found is another")
	}

	s.list(registry.PoolConfig{}, registry.ReplicaConfig{Name: two.Name(), URL: url3})
	s.check("its name is listed", url3)
	if err := d.Look(t.Context()); err == nil || !strings.Contains(err.Error(), "name is taken") {
		t.Errorf("Look = %v, want an error that says that the name is taken", err)
	}
	d.Leave()
	s.check("left", url3)
}

// TestInherit: what both names hold stays, what only the first one held leaves
// when the second one first answers.
func TestInherit(t *testing.T) {
	down := errors.New("servfail")
	for _, tt := range []struct {
		name   string
		cfg    registry.DNSConfig
		failed []string // the members after a lookup that fails
		want   []string // and after one that finds 2 and 3
		stays  bool     // 2 is the same replica
	}{
		{"other zone", registry.DNSConfig{Zone: "b"}, []string{url1 + " b", url2 + " b"}, []string{url1 + " b", url2 + " b", url3 + " b"}, true},
		{"other networks", registry.DNSConfig{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/31")}},
			[]string{url2}, []string{url2, url3}, true},
		{"other port", registry.DNSConfig{Port: 9000}, []string{url1, url2}, []string{"http://10.0.0.2:9000", "http://10.0.0.3:9000"}, false},
		{"https", registry.DNSConfig{Scheme: "https"}, nil, []string{"https://10.0.0.2:8000", "https://10.0.0.3:8000"}, false},
	} {
		s := newStreet(t)
		old := s.dns(registry.DNSConfig{Zone: "a"})
		s.finds(old, "10.0.0.1", "10.0.0.2")
		two := s.pool.Replicas()[1]
		d := s.dns(tt.cfg)
		d.Inherit(old)
		old.Leave()
		s.names.set(down, false)
		if err := d.Look(t.Context()); !errors.Is(err, down) {
			t.Errorf("%s: Look = %v, want %v", tt.name, err, down)
		}
		s.check(tt.name+", down", tt.failed...)
		s.finds(d, "10.0.0.2", "10.0.0.3")
		s.check(tt.name, tt.want...)
		if got := slices.Contains(s.pool.Replicas(), two); got != tt.stays {
			t.Errorf("%s: the replica stays: %v, want %v", tt.name, got, tt.stays)
		}
		d.Leave()
		s.check(tt.name + ", left")
	}
}

// TestInheritAtOnce: the pool is never without a member while another port
// takes the place of the first one.
func TestInheritAtOnce(t *testing.T) {
	s := newStreet(t)
	old := s.dns(registry.DNSConfig{})
	s.finds(old, "10.0.0.1")
	d := s.dns(registry.DNSConfig{Scheme: "https"}) // of the same name
	d.Inherit(old)
	least := 1
	s.pool.OnChange(func() { least = min(least, len(s.pool.Replicas())) })
	s.finds(d, "10.0.0.1")
	if s.check("swapped", "https://10.0.0.1:8000"); least != 1 {
		t.Errorf("the pool had %d members meanwhile, want 1", least)
	}
}

// TestLookupsRaceReplace: while lookups and reloads run against each other, no
// address has two members, and in the end each has what it should.
func TestLookupsRaceReplace(t *testing.T) {
	s := newStreet(t)
	d := s.dns(registry.DNSConfig{Misses: 1})
	s.finds(d, "10.0.0.9")
	kept := s.pool.Replicas()[0]
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 300 {
			s.names.set(nil, false, "10.0.0.9", fmt.Sprintf("10.0.0.%d", 1+i%3))
			if err := d.Look(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		for i := range 300 {
			s.list(registry.PoolConfig{}, registry.ReplicaConfig{URL: fmt.Sprintf("http://10.0.0.%d:8000", 1+i%3)})
			if err := d.Refill(); err != nil {
				t.Error(err)
			}
			seen := map[string]bool{}
			for _, r := range s.pool.Replicas() {
				if seen[r.URL()] {
					t.Errorf("%s is there twice", r.URL())
				}
				seen[r.URL()] = true
			}
			if !seen[kept.URL()] {
				t.Error("a replica that was found is gone")
			}
		}
	})
	wg.Wait()
	s.list(registry.PoolConfig{}, registry.ReplicaConfig{URL: url1})
	s.finds(d, "10.0.0.9", "10.0.0.1")
	s.check("in the end", url1, kept.URL())
	if s.pool.Replicas()[1] != kept {
		t.Error("the replica that was found all the time is another")
	}
	d.Leave()
	s.check("left", url1)
}
