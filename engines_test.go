package expediter

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestEnginesLost: a lost engine counts for the attempts that it was lost under,
// and is asked about once.
func TestEnginesLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		asked := 0
		ask := func(gone bool) func() bool {
			return func() bool {
				asked++
				time.Sleep(time.Millisecond)
				return gone
			}
		}
		before := time.Now()
		if e.lost("a#1", before, ask(false)) {
			t.Error("an engine that is well was lost")
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if !e.lost("a#1", before, ask(true)) {
					t.Error("an attempt under which it was lost does not count")
				}
			})
		}
		wg.Wait()
		if asked != 2 {
			t.Errorf("asked %d times, want once for each time it could be known", asked)
		}
		time.Sleep(time.Nanosecond)
		after := time.Now()
		if e.lost("a#1", after, ask(true)) || asked != 2 {
			t.Error("an attempt that began when it was known counts, or it was asked about again")
		}
		if !e.lost("a#2", after, ask(true)) || !e.lost("b#1", after, ask(true)) {
			t.Error("another start, or another replica, is not one of its own")
		}
		func() {
			defer func() { _ = recover() }()
			e.lost("d#1", after, func() bool { panic("a transport of somebody else's") })
		}()
		if !e.lost("d#1", after, ask(true)) {
			t.Error("a question that panicked was not asked again")
		}
		time.Sleep(poisonMemory + time.Second)
		e.lost("b#1", time.Now(), ask(false))
		if e.lost("c#1", time.Now(), ask(true)); len(e.asked) != 1 {
			t.Errorf("%d remembered, want the last one", len(e.asked))
		}
	})
}
