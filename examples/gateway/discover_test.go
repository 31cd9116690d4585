package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// phoneBook is a resolver whose names and answers can be set.
type phoneBook struct {
	mu    sync.Mutex
	addrs map[string]string // of each name, separated by spaces; one without any is not found
}

func (b *phoneBook) set(host, addrs string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addrs[host] = addrs
}

func (b *phoneBook) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []netip.Addr
	for a := range strings.FieldsSeq(b.addrs[host]) {
		out = append(out, netip.MustParseAddr(a))
	}
	if out == nil {
		return nil, errors.New("no such host")
	}
	return out, nil
}

// partsOf reads a file that is sound but for the replicas of its pool, which
// is written as pool says.
func partsOf(t *testing.T, pool string) parts {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	file := strings.Replace(sound, "replicas: [http://10.0.0.1:8000, http://10.0.0.2:8000]", pool, 1)
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	_, p, err := load(path, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// seeker is a gateway as far as it looks for replicas.
type seeker struct {
	gateway
	t    *testing.T
	book phoneBook
	log  lockedLog
}

func newSeeker(t *testing.T) *seeker {
	t.Helper()
	s := &seeker{t: t, book: phoneBook{addrs: map[string]string{}}}
	s.logger = slog.New(slog.NewTextHandler(&s.log, nil))
	s.resolver = &s.book
	var err error
	if s.registry, err = registry.NewStatic(); err != nil {
		t.Fatal(err)
	}
	return s
}

// reload does what a reload does for pools.
func (s *seeker) reload(p parts) {
	s.t.Helper()
	if err := s.replace(s.t.Context(), p); err != nil {
		s.t.Fatal(err)
	}
}

func (s *seeker) members() []*registry.Replica { return s.registry.Pools()[0].Replicas() }

func urlsOf(replicas []*registry.Replica) string {
	var out []string
	for _, r := range replicas {
		out = append(out, strings.TrimPrefix(r.URL(), "http://"))
	}
	return strings.Join(out, " ")
}

const found = "dns: {host: one.svc, port: 80}"

// TestReloadOfFound: a reload keeps what was found under a name that stays,
// and swaps it where the name, or how replicas are reached, does not.
func TestReloadOfFound(t *testing.T) {
	const both = "10.0.0.1:80 10.0.0.2:80"
	for _, tt := range []struct {
		name, before, after string
		want                string // the members, found or listed
		same                int    // how many of them were there before
	}{
		{"nothing", found, found, both, 2},
		{"limits", found, "max_tokens: 5\n    kv_tokens: 5000\n    " + found, both, 2},
		{"a listed one", found, found + "\n    replicas: [http://10.0.0.7]", "10.0.0.7 " + both, 2},
		{"no listed one", found + "\n    replicas: [http://10.0.0.7]", found, both, 2},
		{"interval", found, "dns: {host: one.svc, port: 80, interval: 1s}", both, 2},
		{"zone", found, "dns: {host: one.svc, port: 80, zone: b}", both, 2},
		{"networks", found, "networks: [10.0.0.2]\n    " + found, "10.0.0.2:80", 1},
		{"port", found, "dns: {host: one.svc, port: 81}", "10.0.0.1:81 10.0.0.2:81", 0},
		{"scheme", found, "dns: {host: one.svc, port: 80, scheme: https}", "https://10.0.0.1:80 https://10.0.0.2:80", 0},
		{"host", found, "dns: {host: two.svc, port: 80}", "10.0.0.2:80 10.0.0.3:80", 1},
		{"a host that is not there", found, "dns: {host: three.svc, port: 80}", both, 2},
		{"no name", found, "replicas: [http://10.0.0.7]", "10.0.0.7", 0},
		{"listed, not found", found, "replicas: [http://10.0.0.1:80]", "10.0.0.1:80", 0},
		{"found, not listed", "replicas: [http://10.0.0.1:80]", found, both, 0},
		{"listed and found", found, found + "\n    replicas: [http://10.0.0.1:80]", both, 1},
		{"listed as found", found, found + "\n    replicas: [{url: http://10.0.0.1:80, name: '10.0.0.1:80'}]", both, 2},
		{"no longer listed", found + "\n    replicas: [http://10.0.0.1:80]", found, both, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := partsOf(t, tt.before), partsOf(t, tt.after)
			synctest.Test(t, func(t *testing.T) {
				s := newSeeker(t)
				defer s.endDiscoveries()
				s.book.set("one.svc", "10.0.0.1 10.0.0.2")
				s.book.set("two.svc", "10.0.0.2 10.0.0.3")
				s.reload(before)
				was := s.members()
				s.reload(after)
				same := 0
				for _, r := range s.members() {
					if slices.Contains(was, r) {
						same++
					}
				}
				if got := urlsOf(s.members()); got != tt.want || same != tt.same {
					t.Errorf("members %q, of which %d stayed; want %q, %d", got, same, tt.want, tt.same)
				}
				time.Sleep(time.Minute)
				if got := urlsOf(s.members()); got != tt.want {
					t.Errorf("a minute later members %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestDrainOfFound: a replica that was found and is listed to be drained gets
// no request, whatever the name says, and comes back when it is listed no
// longer.
func TestDrainOfFound(t *testing.T) {
	for _, name := range []string{"", ", name: '10.0.0.1:80'"} {
		first, drained := partsOf(t, found), partsOf(t, found+"\n    replicas: [{url: http://10.0.0.1:80, drain: true"+name+"}]")
		last := partsOf(t, found)
		synctest.Test(t, func(t *testing.T) {
			s := newSeeker(t)
			defer s.endDiscoveries()
			s.book.set("one.svc", "10.0.0.1 10.0.0.2")
			s.reload(first)
			s.reload(drained)
			for _, addrs := range []string{"10.0.0.1 10.0.0.2", "10.0.0.2", "10.0.0.1 10.0.0.2"} {
				s.book.set("one.svc", addrs)
				time.Sleep(time.Minute)
				m := s.members()
				if got := urlsOf(m); got != "10.0.0.1:80 10.0.0.2:80" || !m[0].Draining() || m[1].Draining() {
					t.Errorf("the name has %s: members %q, of which the first drains: %t", addrs, got, m[0].Draining())
				}
			}
			s.reload(last)
			if m := s.members(); len(m) != 2 || m[0].Draining() || m[1].Draining() {
				t.Errorf("listed no longer: members %q, of which the first drains: %t", urlsOf(m), m[0].Draining())
			}
		})
	}
}

// TestOutageIsToldOnce: one line when lookups begin to fail and one when they
// succeed again. The pool is never empty for it.
func TestOutageIsToldOnce(t *testing.T) {
	p := partsOf(t, found)
	synctest.Test(t, func(t *testing.T) {
		s := newSeeker(t)
		defer s.endDiscoveries()
		s.without = true
		s.reload(p)
		for _, addrs := range []string{"", "10.0.0.1 10.0.0.2", "", "10.0.0.2"} {
			s.book.set("one.svc", addrs)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		var got []string
		for line := range strings.Lines(s.log.String()) {
			_, line, _ = strings.Cut(line, "level=")
			got = append(got, strings.TrimSpace(line))
		}
		const (
			away = `WARN msg="replicas cannot be looked up; the pool keeps those that it has" pool=a host=one.svc error="registry: dns: one.svc: no such host"`
			none = `WARN msg="replicas cannot be looked up; the pool has none" pool=a host=one.svc error="registry: dns: one.svc: no such host"`
			back = `INFO msg="replicas can be looked up" pool=a host=one.svc`
		)
		want := []string{
			none,
			back, `INFO msg="replicas changed" pool=a host=one.svc joined="10.0.0.1:80 10.0.0.2:80" left=""`,
			away,
			back, `INFO msg="replicas changed" pool=a host=one.svc joined="" left=10.0.0.1:80`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("log =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestReloadWithoutReplicas: a file by which a pool would lose what it has to a
// name that gives nothing is refused, unless pools may be empty.
func TestReloadWithoutReplicas(t *testing.T) {
	const listed = "replicas: [http://10.0.0.7]"
	for _, tt := range []struct {
		name, before, after string
		without             bool
		want                string // the members
		refused             string
	}{
		{"listed becomes found", listed, found, false, "10.0.0.7", `pool "a" would have no replica: registry: dns: one.svc: no such host; -without-replicas goes on anyway`},
		{"and may be empty", listed, found, true, "", ""},
		{"with a listed one", listed, found + "\n    " + listed, false, "10.0.0.7", ""},
		{"another name", "dns: {host: two.svc, port: 80}", found, false, "10.0.0.2:80", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := partsOf(t, tt.before), partsOf(t, tt.after)
			synctest.Test(t, func(t *testing.T) {
				s := newSeeker(t)
				defer s.endDiscoveries()
				s.book.set("two.svc", "10.0.0.2")
				s.reload(before)
				was := s.members()
				s.without = tt.without
				refused := ""
				if err := s.replace(t.Context(), after); err != nil {
					refused = err.Error()
				}
				if refused != tt.refused {
					t.Errorf("replace = %q, want %q", refused, tt.refused)
				}
				if got := urlsOf(s.members()); got != tt.want || got != "" && s.members()[0] != was[0] {
					t.Errorf("members %q, want %q as they were", got, tt.want)
				}
				s.book.set("one.svc", "10.0.0.1")
				time.Sleep(time.Minute)
				if got := urlsOf(s.members()); (tt.refused == "") != strings.Contains(got, "10.0.0.1:80") {
					t.Errorf("when the name is there members %q", got)
				}
			})
		})
	}
}

// deaf is a resolver that does not answer before it is given up, once it is
// set.
type deaf struct {
	phoneBook
	on atomic.Bool
}

func (d *deaf) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if d.on.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.phoneBook.LookupNetIP(ctx, network, host)
}

// TestReloadDoesNotWaitForLookups that are none of its own.
func TestReloadDoesNotWaitForLookups(t *testing.T) {
	first, again, other := partsOf(t, found), partsOf(t, found), partsOf(t, "replicas: [http://10.0.0.7]")
	synctest.Test(t, func(t *testing.T) {
		s := newSeeker(t)
		defer s.endDiscoveries()
		d := &deaf{phoneBook: phoneBook{addrs: map[string]string{}}}
		d.set("one.svc", "10.0.0.1")
		s.resolver = d
		s.reload(first)
		d.on.Store(true)
		time.Sleep(6 * time.Second) // a lookup has been under way for a second
		began := time.Now()
		s.reload(again)
		if got := urlsOf(s.members()); got != "10.0.0.1:80" {
			t.Errorf("members %q", got)
		}
		s.reload(other)
		if took := time.Since(began); took != 0 {
			t.Errorf("two reloads waited %v", took)
		}
	})
}

// TestUselessAddresses: what is never connected to is not an answer.
func TestUselessAddresses(t *testing.T) {
	p := partsOf(t, found)
	synctest.Test(t, func(t *testing.T) {
		s := newSeeker(t)
		defer s.endDiscoveries()
		s.book.set("one.svc", "10.0.0.1 0.0.0.0")
		s.reload(p)
		for _, addrs := range []string{"0.0.0.0", "169.254.169.254", "10.0.0.1 100.100.100.200"} {
			s.book.set("one.svc", addrs)
			time.Sleep(time.Minute)
			if got := urlsOf(s.members()); got != "10.0.0.1:80" {
				t.Errorf("the name has %s: members %q", addrs, got)
			}
		}
	})
}

// TestPoolsComeAndGo: lookups begin with a pool and end with it, and its
// replicas stay with the requests that are on them. A bubble does not end
// while a lookup could still come.
func TestPoolsComeAndGo(t *testing.T) {
	one, none := partsOf(t, found), partsOf(t, "replicas: [http://10.0.0.7]")
	none.pools[0] = mustPool(t, "b")
	again := partsOf(t, found)
	synctest.Test(t, func(t *testing.T) {
		s := newSeeker(t)
		s.book.set("one.svc", "10.0.0.1")
		s.reload(one)
		pool, r := s.registry.Pools()[0], s.members()[0]
		s.reload(none)
		s.book.set("one.svc", "10.0.0.2")
		time.Sleep(time.Minute)
		if len(s.discoveries) != 0 || len(pool.Replicas()) != 1 || pool.Replicas()[0] != r {
			t.Errorf("%d discoveries, and the pool that is gone has %q", len(s.discoveries), urlsOf(pool.Replicas()))
		}
		s.reload(again)
		if got := urlsOf(s.members()); s.registry.Pools()[0] == pool || got != "10.0.0.2:80" {
			t.Errorf("the pool that is back has %q", got)
		}
		s.endDiscoveries()
	})
}

func mustPool(t *testing.T, name string) *registry.Pool {
	t.Helper()
	p, err := registry.NewPool(registry.PoolConfig{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestReloadsRaceLookups: reloads of several files while names change and are
// looked up all the time.
func TestReloadsRaceLookups(t *testing.T) {
	s := newSeeker(t)
	files := []string{found, found + "\n    replicas: [http://10.0.0.1:80]", "dns: {host: two.svc, port: 80}", "replicas: [http://10.0.0.2:80]"}
	// The address that both names always have is that of a replica which is
	// never listed.
	for i := range 100 {
		s.book.set("one.svc", fmt.Sprintf("10.0.0.9 10.0.0.%d", 1+i%3))
		s.book.set("two.svc", fmt.Sprintf("10.0.0.9 10.0.0.%d", 1+i%2))
		p := partsOf(t, files[i%len(files)])
		if p.searches[0] != (search{}) {
			p.searches[0].Interval = 10 * time.Microsecond
		}
		s.reload(p)
		urls := strings.Fields(urlsOf(s.members()))
		slices.Sort(urls)
		if len(slices.Compact(slices.Clone(urls))) != len(urls) || slices.Contains(urls, "10.0.0.9:80") != (p.searches[0] != search{}) {
			t.Errorf("reload %d: members %q", i, urls)
		}
	}
	s.endDiscoveries()
	s.reload(partsOf(t, "replicas: [http://10.0.0.2:80]"))
	if len(s.discoveries) != 0 {
		t.Errorf("%d discoveries are left", len(s.discoveries))
	}
}
