package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// TestReloadThatEmptiesAPool is refused, whatever takes the last replica that
// can be used away, unless pools may be empty.
func TestReloadThatEmptiesAPool(t *testing.T) {
	const (
		listed  = found + "\n    replicas: [http://10.0.0.7]"
		lost    = "registry: dns: one.svc: no such host"
		lostTwo = "registry: dns: two.svc: no such host"
		outside = "registry: dns: one.svc: has no address that is allowed, only such as 10.0.0.1"
	)
	for _, tt := range []struct {
		name, before, after string
		one, then           string // the addresses of the name, before and after a minute
		lost                string // why the reload is refused
		emptied             string // the members where pools may be empty
	}{
		{"https", found, "dns: {host: one.svc, port: 80, scheme: https}", "10.0.0.1", "", lost, ""},
		{"https and another host", found, "dns: {host: two.svc, port: 80, scheme: https}", "10.0.0.1", "10.0.0.1", lostTwo, ""},
		{"other networks", found, "networks: [10.9.0.0/16]\n    " + found, "10.0.0.1", "10.0.0.1", outside, ""},
		{"none is listed", listed, found, "", "", lost, ""},
		{"none is listed, and another host", listed, "dns: {host: two.svc, port: 80}", "", "", lostTwo, ""},
		{"none is listed, and another interval", listed, "dns: {host: one.svc, port: 80, interval: 1s}", "", "", lost, ""},
		{"none is listed, but was found", found + "\n    replicas: [http://10.0.0.1:80]", found, "10.0.0.1", "", "", "10.0.0.1:80"},
		{"none is listed, but is there by now", listed, found, "", "10.0.0.1", "", "10.0.0.1:80"},
		{"another interval", found, "dns: {host: one.svc, port: 80, interval: 1s}", "10.0.0.1", "", "", "10.0.0.1:80"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after, again := partsOf(t, tt.before), partsOf(t, tt.after), partsOf(t, tt.after)
			synctest.Test(t, func(t *testing.T) {
				s := newSeeker(t)
				defer s.endDiscoveries()
				s.book.set("one.svc", tt.one)
				s.reload(before)
				time.Sleep(time.Minute)
				was := urlsOf(s.members())
				s.book.set("one.svc", tt.then)
				if tt.one != "" {
					time.Sleep(time.Minute)
				}
				want, refused := "", ""
				if tt.lost != "" {
					want = `pool "a" would have no replica: ` + tt.lost + "; -without-replicas goes on anyway"
				}
				if err := s.replace(t.Context(), after); err != nil {
					refused = err.Error()
				}
				time.Sleep(time.Minute)
				if got := urlsOf(s.members()); refused != want || want != "" && got != was {
					t.Errorf("replace = %q, then members %q; want %q, and %q as they were", refused, got, want, was)
				}
				s.without = true
				s.reload(again)
				if got := urlsOf(s.members()); got != tt.emptied {
					t.Errorf("where pools may be empty: members %q, want %q", got, tt.emptied)
				}
			})
		})
	}
}

// TestReloadsLeaveNoGap: a pool has a member at every moment of a reload.
func TestReloadsLeaveNoGap(t *testing.T) {
	for _, tt := range []struct{ name, one, other string }{
		{"listed or found", "replicas: [http://10.0.0.1:80]", found},
		{"listed and found, or found", found + "\n    replicas: [http://10.0.0.1:80]", found},
		{"listed as it is found, or found", "replicas: [{url: http://10.0.0.1:80, name: '10.0.0.1:80'}]", found},
		{"one host or another", "dns: {host: two.svc, port: 80}", found},
		{"http or https", "dns: {host: one.svc, port: 80, scheme: https}", found},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSeeker(t)
			defer s.endDiscoveries()
			s.book.set("one.svc", "10.0.0.1")
			s.book.set("two.svc", "10.0.0.2")
			s.reload(partsOf(t, tt.one))
			pool, least, changes := s.registry.Pools()[0], 1, 0
			pool.OnChange(func() { least, changes = min(least, len(pool.Replicas())), changes+1 })
			s.reload(partsOf(t, tt.other))
			s.reload(partsOf(t, tt.one))
			if least != 1 || changes < 2 || len(s.members()) != 1 {
				t.Errorf("of %d changes one left %d members, and there are %d in the end; want 1 always", changes, least, len(s.members()))
			}
		})
	}
}

// TestUnlistedKeepsItsLoad: a replica that is found by the name it was listed
// by stays the same one, with what is in flight on it.
func TestUnlistedKeepsItsLoad(t *testing.T) {
	const named = "replicas: [{url: http://10.0.0.1:80, name: '10.0.0.1:80', drain: true}]"
	for _, tt := range []struct{ name, before, after string }{
		{"found, then listed", found, found + "\n    " + named},
		{"listed and found, then found", found + "\n    " + strings.Replace(named, "true", "false", 1), found},
		{"listed, then found", strings.Replace(named, "true", "false", 1), found},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSeeker(t)
			defer s.endDiscoveries()
			s.book.set("one.svc", "10.0.0.1")
			s.reload(partsOf(t, tt.before))
			r := s.members()[0]
			l, ok := r.Lease(registry.Claim{Prefill: 100, KV: 1000})
			if !ok {
				t.Fatal("no lease on a new replica")
			}
			defer l.Release()
			s.reload(partsOf(t, tt.after))
			if got := s.members(); len(got) != 1 || got[0] != r || got[0].Load().KV != 1000 || got[0].Draining() != strings.Contains(tt.after, "drain: true") {
				t.Errorf("members %q: the same one: %t, with %+v in flight, draining: %t", urlsOf(got), got[0] == r, got[0].Load(), got[0].Draining())
			}
		})
	}
}

// linesOf returns the lines of the log with the word, without their time.
func (s *seeker) linesOf(word string) []string {
	var out []string
	for line := range strings.Lines(s.log.String()) {
		if _, line, _ = strings.Cut(line, "level="); strings.Contains(line, word) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// TestLeftOutIsToldOnce: one warning when a replica that is found cannot be
// added, and a line when that is over, not one for each lookup.
func TestLeftOutIsToldOnce(t *testing.T) {
	const file = found + "\n    replicas: [{url: 'http://10.0.0.7:80', name: '10.0.0.2:80'}]"
	first, again := partsOf(t, file), partsOf(t, file)
	synctest.Test(t, func(t *testing.T) {
		s := newSeeker(t)
		defer s.endDiscoveries()
		s.book.set("one.svc", "10.0.0.1")
		s.reload(first)
		time.Sleep(time.Minute)
		s.book.set("one.svc", "10.0.0.1 10.0.0.2")
		time.Sleep(time.Minute)
		s.reload(again)
		s.book.set("one.svc", "10.0.0.1")
		time.Sleep(time.Minute)
		want := []string{
			`WARN msg="a replica that was found is left out" pool=a host=one.svc error="registry: pool \"a\": replica \"10.0.0.2:80\": name is taken"`,
			`INFO msg="no replica that was found is left out any more" pool=a host=one.svc`,
		}
		if got := s.linesOf("left out"); !slices.Equal(got, want) {
			t.Errorf("log =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestEndDuringAReload: one whose lookup hangs while the gateway ends changes
// nothing, and says so.
func TestEndDuringAReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	file := strings.Replace(sound, "replicas: [http://10.0.0.1:8000, http://10.0.0.2:8000]", "dns: {host: two.svc, port: 80}", 1)
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	began, _, err := load(path, "")
	if err != nil {
		t.Fatal(err)
	}
	before := partsOf(t, found)
	synctest.Test(t, func(t *testing.T) {
		s := newSeeker(t)
		s.path, s.began = path, began
		defer s.endDiscoveries()
		d := &deaf{phoneBook: phoneBook{addrs: map[string]string{}}}
		d.set("one.svc", "10.0.0.1")
		s.resolver = d
		s.reload(before)
		d.on.Store(true)
		hup := make(chan os.Signal)
		end := s.followHangups(context.Background(), hup)
		hup <- syscall.SIGHUP
		time.Sleep(500 * time.Millisecond)
		end()
		want := []string{`ERROR msg="configuration not reloaded; the old one stays" error="the gateway is shutting down"`}
		if got := s.linesOf("reloaded"); !slices.Equal(got, want) || urlsOf(s.members()) != "10.0.0.1:80" {
			t.Errorf("log = %q, members %q; want %q, and those that were there", got, urlsOf(s.members()), want)
		}
	})
}
