package admission_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/admission"
)

// slowStart fails at first and then takes a second to say what it should.
func slowStart(says bool) func() (bool, error) {
	calls := 0
	return func() (bool, error) {
		if calls++; calls == 1 {
			return false, nil
		}
		time.Sleep(time.Second)
		return says, nil
	}
}

// TestWorkBeingTriedIsNotPushedOut: it may have started already.
func TestWorkBeingTriedIsNotPushedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, admission.Config{MaxWaiting: 1}, 0)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := g.c.Admit(t.Context(), admission.Work{Tenant: "hog", Tokens: 1000}, slowStart(true)); err != nil {
				t.Errorf("Admit of the work being tried = %v", err)
			}
		})
		synctest.Wait()
		if err := g.c.Admit(t.Context(), admission.Work{Tenant: "other", Tokens: 1}, g.take(1)); reason(err) != admission.QueueFull {
			t.Errorf("Admit = %v, want QueueFull", err)
		}
		wg.Wait()
	})
}

func TestCloseWhileTried(t *testing.T) {
	for _, starts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(t, admission.Config{}, 0)
			var wg sync.WaitGroup
			wg.Go(func() {
				err := g.c.Admit(t.Context(), admission.Work{}, slowStart(starts))
				if starts && err != nil || !starts && reason(err) != admission.Closing {
					t.Errorf("starts %v: Admit = %v", starts, err)
				}
			})
			synctest.Wait()
			began := time.Now()
			g.c.Close()
			if d := time.Since(began); d != time.Second {
				t.Errorf("Close returned after %v, want 1s", d)
			}
			wg.Wait()
		})
	}
}

// TestKeep: a start function that sets room aside once it is told to, as a
// gateway does on one of several replicas.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, admission.Config{}, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 20 { // small work keeps the pool busy for ever
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				for ctx.Err() == nil {
					if g.c.Admit(ctx, admission.Work{Tenant: "small", Tokens: 100}, g.take(100)) == nil {
						time.Sleep(100 * time.Millisecond)
						g.give(100)
					}
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		kept, held := 0, 0
		keep := func() { kept++ }
		err := g.c.Admit(ctx, admission.Work{Tenant: "large", Tokens: 800, Keep: keep}, func() (bool, error) {
			if kept > 0 { // collects what it finds free
				g.mu.Lock()
				got := min(g.free, 800-held)
				g.free -= got
				held += got
				g.mu.Unlock()
			}
			return held == 800, nil
		})
		if d := time.Since(began); err != nil || kept != 1 || d < time.Second || d > 2*time.Second {
			t.Errorf("Admit = %v after %v, Keep called %d times: want it once, after a second, and a start soon after", err, d, kept)
		}
		g.give(800)
		cancel()
		wg.Wait()
		if g.free != 1000 {
			t.Errorf("%d tokens free at rest, want 1000", g.free)
		}
	})
}
