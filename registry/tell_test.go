package registry_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// heard collects what OnHealth tells, as "1 out frozen" and "1 back frozen".
func heard(p *registry.Pool) (list *[]string, stop func()) {
	list = new([]string)
	return list, p.OnHealth(func(r *registry.Replica, ejected bool, why registry.Reason) {
		word := "back"
		if ejected {
			word = "out"
		}
		*list = append(*list, fmt.Sprint(r.Name(), " ", word, " ", why))
	})
}

func TestOnHealthHearsEachChangeOnce(t *testing.T) {
	p := newPool(t, 8, registry.PoolConfig{})
	got, stop := heard(p)
	rs := p.Replicas()
	back := func(r *registry.Replica, after time.Duration) {
		l := lease(t, r, registry.Claim{}, after)
		l.Succeeded(at(after))
		l.Succeeded(at(after))
		l.Release()
	}
	fail(rs[0], 9, 0)
	fail(rs[0], 1, 10*sec) // a failed trial is no change
	for i := range 9 {
		rs[1].SetProbe(false, at(time.Duration(i)*sec))
		rs[2].Report(registry.State{At: at(time.Duration(i) * sec), Running: 1, Steps: 7})
	}
	back(rs[0], 40*sec)
	back(rs[2], 40*sec)
	p.Remove(rs[1])
	want := []string{"0 out failures", "1 out probe", "2 out frozen", "0 back failures", "2 back frozen"}
	if !slices.Equal(*got, want) {
		t.Errorf("heard %q, want %q", *got, want)
	}
	stop()
	stop()
	fail(rs[3], 3, 50*sec)
	if len(*got) != len(want) {
		t.Errorf("heard %q after stop", (*got)[len(want):])
	}
}

// TestOnHealthHearsWhatMembershipBringsBack: who may not be out any longer.
func TestOnHealthHearsWhatMembershipBringsBack(t *testing.T) {
	for name, shrink := range map[string]func(*registry.Static, *registry.Pool){
		"removed":  func(_ *registry.Static, p *registry.Pool) { p.Remove(p.Replicas()[1]) },
		"draining": func(_ *registry.Static, p *registry.Pool) { p.Replicas()[1].Drain() },
		"replaced": func(s *registry.Static, _ *registry.Pool) {
			if err := s.Replace(newPool(t, 1, registry.PoolConfig{})); err != nil {
				t.Error(err)
			}
		},
	} {
		p := newPool(t, 2, registry.PoolConfig{})
		s, err := registry.NewStatic(p)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := heard(p)
		fail(p.Replicas()[0], 3, 0)
		shrink(s, p)
		if want := []string{"0 out failures", "0 back failures"}; !slices.Equal(*got, want) {
			t.Errorf("%s: heard %q, want %q", name, *got, want)
		}
	}
}

// TestOnHealthFromInside: a listener may change the health of a replica; what
// it causes is told after.
func TestOnHealthFromInside(t *testing.T) {
	p := newPool(t, 4, registry.PoolConfig{})
	rs := p.Replicas()
	p.OnHealth(func(r *registry.Replica, ejected bool, _ registry.Reason) {
		if r == rs[0] && ejected {
			fail(rs[1], 3, 0)
		}
	})
	got, _ := heard(p)
	fail(rs[0], 3, 0)
	if want := []string{"0 out failures", "1 out failures"}; !slices.Equal(*got, want) {
		t.Errorf("heard %q, want %q", *got, want)
	}
}

// TestOnHealthKeepsTheOrder: however many goroutines make changes, out and
// back alternate for each replica, and the last word is the present state.
func TestOnHealthKeepsTheOrder(t *testing.T) {
	p := newPool(t, 4, registry.PoolConfig{Eject: registry.EjectConfig{Pause: 1, MaxPause: 1}})
	out := map[*registry.Replica]bool{}
	changes := 0
	p.OnHealth(func(r *registry.Replica, ejected bool, _ registry.Reason) {
		if out[r] == ejected {
			t.Errorf("replica %s: told twice that ejected is %v", r.Name(), ejected)
		}
		out[r] = ejected
		changes++
	})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				r := p.Replicas()[(g+i)%4]
				now := at(time.Duration(i) * sec)
				fail(r, 3, time.Duration(i)*sec)
				if l, ok := r.LeaseAt(registry.Claim{}, now.Add(1)); ok {
					l.Succeeded(now.Add(1))
					l.Release()
				}
			}
		})
	}
	wg.Wait()
	for _, r := range p.Replicas() {
		if _, is := r.Ejected(); is != out[r] {
			t.Errorf("replica %s: ejected is %v, last told %v", r.Name(), is, out[r])
		}
	}
	if changes < 10 {
		t.Errorf("only %d changes", changes)
	}
}
