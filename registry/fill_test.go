package registry_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/registry"
)

// next is a pool that is to replace that of s, with listed replicas.
func (s *street) next(replicas ...registry.ReplicaConfig) *registry.Pool {
	s.t.Helper()
	p := newPool(s.t, 0, registry.PoolConfig{})
	for _, r := range replicas {
		if _, err := p.Add(r); err != nil {
			s.t.Fatal(err)
		}
	}
	return p
}

// asks has d ask for a name with these addresses.
func (s *street) asks(d *registry.DNS, addrs ...string) {
	s.t.Helper()
	s.names.set(nil, false, addrs...)
	if err := d.Ask(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *street) replace(p *registry.Pool) {
	s.t.Helper()
	if err := s.reg.Replace(p); err != nil {
		s.t.Fatal(err)
	}
}

// refill replaces the pool by one without listed replicas that d has filled.
func (s *street) refill(d, old *registry.DNS) {
	s.t.Helper()
	p := s.next()
	d.Fill(p, old)
	s.replace(p)
}

func (s *street) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}

// TestFillAtOnce: where a pool is replaced by one that is filled, it has a
// member all the time.
func TestFillAtOnce(t *testing.T) {
	listed := registry.ReplicaConfig{URL: url1}
	for _, tt := range []struct {
		name   string
		before []registry.ReplicaConfig
		old    *registry.DNSConfig
		cfg    registry.DNSConfig
		want   string
	}{
		{"listed by another name", []registry.ReplicaConfig{listed}, nil, registry.DNSConfig{}, url1},
		{"https", nil, &registry.DNSConfig{}, registry.DNSConfig{Scheme: "https"}, "https://10.0.0.1:8000"},
		{"another port", nil, &registry.DNSConfig{}, registry.DNSConfig{Port: 9000}, "http://10.0.0.1:9000"},
		{"listed beside, which hides it", []registry.ReplicaConfig{listed}, &registry.DNSConfig{}, registry.DNSConfig{Zone: "b"}, url1 + " b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStreet(t)
			s.replace(s.next(tt.before...))
			var old *registry.DNS
			if tt.old != nil {
				old = s.dns(*tt.old)
				s.finds(old, "10.0.0.1")
			}
			d := s.dns(tt.cfg)
			s.asks(d, "10.0.0.1")
			least := 1
			s.pool.OnChange(func() { least = min(least, len(s.pool.Replicas())) })
			p := s.next()
			d.Fill(p, old)
			s.replace(p)
			if old != nil {
				d.Inherit(old)
			}
			if err := d.Follow(); err != nil {
				t.Error(err)
			}
			if s.check("replaced", tt.want); least != 1 {
				t.Errorf("the pool had %d members meanwhile, want 1", least)
			}
			d.Leave()
			s.check("left")
		})
	}
}

// TestFillKeepsTheLedger: a replica that was listed by the name under which it
// is found stays the same one, and is the DNS's from then on.
func TestFillKeepsTheLedger(t *testing.T) {
	s := newStreet(t)
	s.replace(s.next(registry.ReplicaConfig{Name: "10.0.0.1:8000", URL: url1, Zone: "a", Weight: 2}))
	one := s.pool.Replicas()[0]
	lease(t, one, registry.Claim{KV: 10}, 0)
	var told []string
	d := s.dns(registry.DNSConfig{Zone: "b", OnChange: func(joined, left []*registry.Replica) {
		told = append(told, fmt.Sprintf("%d joined, %d left", len(joined), len(left)))
	}})
	s.asks(d, "10.0.0.1", "10.0.0.2")
	p := s.next()
	d.Fill(p, nil)
	s.replace(p)
	s.check("replaced", url1+" b", url2+" b")
	if err := d.Follow(); err != nil {
		t.Error(err)
	}
	s.check("followed", url1+" b", url2+" b")
	if got := s.pool.Replicas()[0]; got != one || got.Load().KV != 10 || got.Weight() != 1 {
		t.Errorf("the same replica: %t, load %+v, weight %v; want the same with its load, and of weight 1", got == one, got.Load(), got.Weight())
	}
	for range 3 {
		s.finds(d, "10.0.0.2")
	}
	s.check("the name lost it", url2+" b")
	if want := []string{"2 joined, 0 left", "0 joined, 1 left"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestFillRacesALookup: what a lookup takes away between Fill and Replace comes
// back, and leaves with the next answer.
func TestFillRacesALookup(t *testing.T) {
	s := newStreet(t)
	d := s.dns(registry.DNSConfig{Misses: 2})
	s.finds(d, "10.0.0.1", "10.0.0.2")
	s.finds(d, "10.0.0.2")
	p := s.next()
	d.Fill(p, nil)
	s.finds(d, "10.0.0.2")
	s.check("before it is replaced", url2)
	s.replace(p)
	if err := d.Refill(); err != nil {
		t.Error(err)
	}
	s.finds(d, "10.0.0.2")
	s.finds(d, "10.0.0.2")
	s.check("two answers later", url2)
}

// TestFillIsForgotten: what was filled in for one DNS and is found by another
// since is not taken from it, whether the pool was replaced or not.
func TestFillIsForgotten(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fill    func(s *street, d *registry.DNS)
		lookups int // which may take it
	}{
		{"of a DNS that begins", func(s *street, d *registry.DNS) {
			s.asks(d, "10.0.0.1", "10.0.0.2")
			s.refill(d, nil)
			s.ok(d.Follow())
		}, 0},
		{"of a DNS that inherits", func(s *street, d *registry.DNS) {
			old := s.dns(registry.DNSConfig{})
			s.finds(old, "10.0.0.1", "10.0.0.2")
			s.asks(d, "10.0.0.1", "10.0.0.2")
			s.refill(d, old)
			d.Inherit(old)
			s.ok(d.Follow())
		}, 0},
		{"refilled", func(s *street, d *registry.DNS) {
			s.finds(d, "10.0.0.1", "10.0.0.2")
			s.refill(d, nil)
			s.ok(d.Refill())
		}, 0},
		{"refilled with an answer", func(s *street, d *registry.DNS) {
			s.finds(d, "10.0.0.1", "10.0.0.2")
			s.refill(d, nil)
			s.asks(d, "10.0.0.1", "10.0.0.2")
			s.ok(d.Refill())
		}, 0},
		{"not put in place", func(s *street, d *registry.DNS) {
			s.finds(d, "10.0.0.1", "10.0.0.2")
			d.Fill(s.next(), nil)
		}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStreet(t)
			d, other := s.dns(registry.DNSConfig{Misses: 1}), s.dns(registry.DNSConfig{})
			tt.fill(s, d)
			s.finds(d, "10.0.0.1")
			taken := 0
			for range 5 {
				s.finds(other, "10.0.0.2")
				two := s.pool.Replicas()[1]
				if s.finds(d, "10.0.0.1"); !slices.Contains(s.pool.Replicas(), two) {
					taken++
				}
			}
			if taken != tt.lookups {
				t.Errorf("the other's replica was taken away by %d lookups, want %d", taken, tt.lookups)
			}
		})
	}
}

// TestFillWithoutAnAnswer: a pool is filled with what can be used.
func TestFillWithoutAnAnswer(t *testing.T) {
	only := func(network string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(network)} }
	for _, tt := range []struct {
		name string
		cfg  registry.DNSConfig
		want string
	}{
		{"another interval", registry.DNSConfig{Interval: 1e9}, url1 + " " + url2},
		{"another port", registry.DNSConfig{Port: 9000}, url1 + " " + url2},
		{"https", registry.DNSConfig{Scheme: "https"}, ""},
		{"another network", registry.DNSConfig{Allow: only("10.9.0.0/16")}, ""},
		{"one of them", registry.DNSConfig{Allow: only("10.0.0.2/32")}, url2},
		{"of no use", registry.DNSConfig{Usable: func(netip.Addr) bool { return false }}, ""},
	} {
		s := newStreet(t)
		old := s.dns(registry.DNSConfig{})
		s.finds(old, "10.0.0.1", "10.0.0.2")
		s.names.set(errors.New("servfail"), false)
		d := s.dns(tt.cfg)
		_ = d.Ask(t.Context())
		p := s.next()
		d.Fill(p, old)
		var got []string
		for _, r := range p.Replicas() {
			got = append(got, r.URL())
		}
		if slices.Sort(got); strings.Join(got, " ") != tt.want {
			t.Errorf("%s: filled with %q, want %q", tt.name, got, tt.want)
		}
		s.check(tt.name+": the pool itself", url1, url2)
		same := s.next()
		old.Fill(same, nil)
		if got := len(same.Replicas()); got != 2 {
			t.Errorf("%s: the old one fills in %d, want 2", tt.name, got)
		}
	}
}

// TestInheritFromAnotherPool is a mistake in the program.
func TestInheritFromAnotherPool(t *testing.T) {
	d, old := newStreet(t).dns(registry.DNSConfig{}), newStreet(t).dns(registry.DNSConfig{})
	defer func() {
		want := `registry: DNS.Inherit: expected a DNS of the same pool "test", got one of pool "test"`
		if got := recover(); got != want {
			t.Errorf("Inherit panics with %v, want %v", got, want)
		}
	}()
	d.Inherit(old)
}

// TestSlotsOfThoseWhoLeave go to those who join in the same step.
func TestSlotsOfThoseWhoLeave(t *testing.T) {
	s := newStreet(t)
	d := s.dns(registry.DNSConfig{Misses: 1})
	street := func(n int) []string {
		var addrs []string
		for i := range 200 {
			addrs = append(addrs, fmt.Sprintf("10.1.%d.%d", n, i))
		}
		return addrs
	}
	for n := range 3 {
		s.finds(d, street(n)...)
		if len(s.pool.Replicas()) != 200 || s.pool.Slots() != 200 {
			t.Fatalf("after exchange %d: %d members in %d slots, want 200 in 200", n, len(s.pool.Replicas()), s.pool.Slots())
		}
	}
	d.Leave()
	for n := range 3 {
		s.list(registry.PoolConfig{}, registry.ReplicaConfig{URL: fmt.Sprintf("http://10.2.0.%d", n)}, registry.ReplicaConfig{URL: url3})
		if s.pool.Slots() != 2 {
			t.Errorf("after Replace %d: %d slots, want 2", n, s.pool.Slots())
		}
	}
}

// TestLeftOutInAnotherOrder: resolvers rotate their answers.
func TestLeftOutInAnotherOrder(t *testing.T) {
	s := newStreet(t)
	s.replace(s.next(
		registry.ReplicaConfig{Name: "10.0.0.1:8000", URL: "http://10.0.0.7"},
		registry.ReplicaConfig{Name: "10.0.0.2:8000", URL: "http://10.0.0.8"},
		registry.ReplicaConfig{Name: "10.0.0.3:8000", URL: "http://10.0.0.9"},
	))
	var told []string
	d := s.dns(registry.DNSConfig{OnLeftOut: func(err error) { told = append(told, fmt.Sprint(err)) }})
	for _, addrs := range []string{"10.0.0.1 10.0.0.2", "10.0.0.2 10.0.0.1", "10.0.0.1 10.0.0.2", "10.0.0.3 10.0.0.1", "10.0.0.1 10.0.0.3"} {
		s.names.set(nil, false, strings.Fields(addrs)...)
		if err := d.Look(t.Context()); err == nil {
			t.Errorf("Look says nothing of %s, which are left out", addrs)
		}
	}
	taken := func(n int) string {
		return fmt.Sprintf(`registry: pool "test": replica "10.0.0.%d:8000": name is taken`, n)
	}
	want := []string{taken(1) + "\n" + taken(2), taken(3) + "\n" + taken(1)}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestDNSTellsWhatIsLeftOut: once for each change.
func TestDNSTellsWhatIsLeftOut(t *testing.T) {
	s := newStreet(t)
	s.replace(s.next(registry.ReplicaConfig{Name: "10.0.0.2:8000", URL: "http://10.0.0.7"}))
	var told []string
	errs := 0
	d := s.dns(registry.DNSConfig{
		OnLeftOut: func(err error) { told = append(told, fmt.Sprint(err)) },
		OnError:   func(error) { errs++ },
	})
	s.finds(d, "10.0.0.1")
	s.names.set(nil, false, "10.0.0.1", "10.0.0.2")
	for range 3 {
		if err := d.Look(t.Context()); err == nil {
			t.Error("Look says nothing of a replica that is left out")
		}
	}
	if err := d.Refill(); err == nil {
		t.Error("Refill says nothing of a replica that is left out")
	}
	s.names.set(errors.New("servfail"), false)
	_ = d.Look(t.Context())
	s.finds(d, "10.0.0.1")
	s.finds(d, "10.0.0.1")
	want := []string{`registry: pool "test": replica "10.0.0.2:8000": name is taken`, "<nil>"}
	if !slices.Equal(told, want) || errs != 4 {
		t.Errorf("told %q, and %d errors; want %q and 4", told, errs, want)
	}
}
