// Package registrytest checks that an implementation of registry.Registry
// keeps the promises of that interface and of its pools.
package registrytest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// Subject is a registry under test.
type Subject struct {
	Registry registry.Registry
	Pool     string // the name of a pool of it
	// Set makes the replicas at these URLs the members of Pool, and returns
	// when they are. A registry whose members never change leaves it nil.
	Set func(urls ...string)
}

// Run checks the subjects that newSubject returns. Each must be new.
func Run(t *testing.T, newSubject func(t *testing.T) Subject) {
	checks := []struct {
		name string
		f    func(*testing.T, Subject)
	}{
		{"Lookup", lookup},
		{"ConcurrentLookup", concurrentLookup},
		{"KeptReplicas", keptReplicas},
		{"LeavingReplicas", leavingReplicas},
		{"Slots", slots},
		{"ChangeIsTold", changeIsTold},
	}
	for i, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			s := newSubject(t)
			if i > 1 && s.Set == nil {
				t.Skip("its members never change")
			}
			c.f(t, s)
		})
	}
}

func pool(t *testing.T, s Subject) *registry.Pool {
	t.Helper()
	p, ok := s.Registry.Pool(s.Pool)
	if !ok || p == nil {
		t.Fatalf("Pool(%q) = %v, %v, want a pool", s.Pool, p, ok)
	}
	return p
}

func member(p *registry.Pool, url string) *registry.Replica {
	for _, r := range p.Replicas() {
		if r.URL() == url {
			return r
		}
	}
	return nil
}

func lookup(t *testing.T, s Subject) {
	p := pool(t, s)
	if p.Name() != s.Pool {
		t.Errorf("Pool(%q) is called %q", s.Pool, p.Name())
	}
	if again := pool(t, s); again != p {
		t.Error("the same name gave another pool")
	}
	for _, name := range []string{"", s.Pool + "x", "no such pool"} {
		if p, ok := s.Registry.Pool(name); ok || p != nil {
			t.Errorf("Pool(%q) = %v, %v, want none", name, p, ok)
		}
	}
	names := map[string]bool{}
	for _, r := range p.Replicas() {
		if r.Pool() != p || names[r.Name()] || r.Slot() >= p.Slots() {
			t.Errorf("replica %q: pool %p, slot %d of %d, name taken %v", r.Name(), r.Pool(), r.Slot(), p.Slots(), names[r.Name()])
		}
		names[r.Name()] = true
	}
}

func concurrentLookup(t *testing.T, s Subject) {
	p := pool(t, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if got, ok := s.Registry.Pool(s.Pool); !ok || got != p {
					t.Errorf("Pool = %v, %v, want the same pool", got, ok)
					return
				}
				for _, r := range p.Replicas() {
					l, ok := r.Lease(registry.Claim{KV: 1})
					if ok {
						l.Release()
					}
				}
			}
		})
	}
	if s.Set != nil {
		for i := range 20 {
			s.Set("http://192.0.2.1:8000", fmt.Sprintf("http://192.0.2.%d:8000", 2+i%3))
		}
	}
	wg.Wait()
}

const (
	urlA = "http://192.0.2.1:8000"
	urlB = "http://192.0.2.2:8000"
	urlC = "http://192.0.2.3:8000"
)

func keptReplicas(t *testing.T, s Subject) {
	s.Set(urlA, urlB)
	p := pool(t, s)
	b := member(p, urlB)
	if b == nil || len(p.Replicas()) != 2 {
		t.Fatalf("%d members, want %s and %s", len(p.Replicas()), urlA, urlB)
	}
	b.Report(registry.State{At: time.Now(), KVTokens: 5000})
	l, ok := b.Lease(registry.Claim{KV: 100})
	if !ok {
		t.Fatal("lease refused")
	}
	slot, generation := b.Slot(), b.Generation()
	s.Set(urlC, urlB)
	if pool(t, s) != p {
		t.Error("a change of members made another pool")
	}
	if member(p, urlB) != b || b.Load().KV != 100 || b.Slot() != slot || b.Generation() != generation || b.State() == nil {
		t.Errorf("a replica that stays was not kept: load %+v, slot %d, state %v", b.Load(), b.Slot(), b.State())
	}
	if member(p, urlA) != nil || member(p, urlC) == nil {
		t.Error("the members are not those that were set")
	}
	l.Release()
	if b.Load().KV != 0 {
		t.Errorf("Load = %+v after the release, want zero", b.Load())
	}
}

func leavingReplicas(t *testing.T, s Subject) {
	s.Set(urlA, urlB)
	p := pool(t, s)
	a := member(p, urlA)
	l, ok := a.Lease(registry.Claim{KV: 100})
	if !ok {
		t.Fatal("lease refused")
	}
	s.Set(urlB)
	if a.Routable(time.Now()) {
		t.Error("a replica that left is routable")
	}
	l.FirstToken()
	l.Release()
	if a.Load() != (registry.Load{}) {
		t.Errorf("Load = %+v after the release, want zero", a.Load())
	}
}

func slots(t *testing.T, s Subject) {
	seen := map[int]uint64{} // slot to generation
	owner := map[int]*registry.Replica{}
	sets := [][]string{{urlA}, {urlA, urlB, urlC}, {urlB}, {urlC, urlB}, {urlA, urlC}, {urlA, urlB, urlC}}
	for _, urls := range sets {
		s.Set(urls...)
		p := pool(t, s)
		var taken []int
		for _, r := range p.Replicas() {
			if slices.Contains(taken, r.Slot()) || r.Slot() < 0 || r.Slot() >= p.Slots() {
				t.Errorf("members %v: slot %d is taken or not below %d", urls, r.Slot(), p.Slots())
			}
			taken = append(taken, r.Slot())
			if owner[r.Slot()] != r && seen[r.Slot()] == r.Generation() {
				t.Errorf("slot %d has another replica of the same generation", r.Slot())
			}
			owner[r.Slot()], seen[r.Slot()] = r, r.Generation()
		}
		if len(taken) != len(urls) {
			t.Errorf("%d members, want %d", len(taken), len(urls))
		}
	}
}

func changeIsTold(t *testing.T, s Subject) {
	s.Set(urlA)
	told := make(chan struct{}, 100)
	pool(t, s).OnChange(func() { told <- struct{}{} })
	s.Set(urlA, urlB)
	if len(told) == 0 {
		t.Error("OnChange was not called for a replica that joined")
	}
}
