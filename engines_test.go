package expediter

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/vllm"
)

// TestEnginesLost: a lost engine counts for the attempts that it was lost under,
// and is asked about once.
func TestEnginesLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		asked := 0
		ask := func(found fate) func() fate {
			return func() fate {
				asked++
				time.Sleep(time.Millisecond)
				return found
			}
		}
		before := time.Now()
		if e.lost("a#1", before, ask(well)) != well {
			t.Error("an engine that is well was lost")
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if e.lost("a#1", before, ask(gone)) != gone {
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
		if e.lost("a#1", after, ask(gone)) != well || asked != 2 {
			t.Error("an attempt that began when it was known counts, or it was asked about again")
		}
		if e.lost("a#2", after, ask(gone)) != gone || e.lost("b#1", after, ask(gone)) != gone {
			t.Error("another start, or another replica, is not one of its own")
		}
		for range 2 { // what is doubtful is asked again
			if e.lost("c#1", after, ask(doubtful)) != doubtful {
				t.Error("a doubt was not passed on")
			}
		}
		if asked != 6 {
			t.Errorf("asked %d times, want 6", asked)
		}
		released := make(chan fate)
		go func() {
			defer func() { _ = recover() }()
			e.lost("d#1", after, func() fate {
				go func() { released <- e.lost("d#1", after, ask(gone)) }()
				synctest.Wait()
				panic("a transport of somebody else's")
			})
		}()
		if got := <-released; got != well || asked != 6 {
			t.Errorf("who waited for a question that panicked got %v, asked %d times", got, asked)
		}
		if e.lost("d#1", after, ask(gone)) != gone {
			t.Error("a question that panicked was not asked again")
		}
		time.Sleep(poisonMemory + time.Second)
		e.lost("b#1", time.Now(), ask(well))
		if e.lost("c#1", time.Now(), ask(gone)); len(e.asked) != 1 {
			t.Errorf("%d remembered, want the last one", len(e.asked))
		}
	})
}

// TestFateBy: only the server's own word that its engine is gone is certain.
func TestFateBy(t *testing.T) {
	for _, tt := range []struct {
		answer vllm.StatusError
		want   fate
	}{
		{vllm.StatusError{Status: 503, Empty: true}, gone},
		{vllm.StatusError{Status: 503, JSON: true}, well},
		{vllm.StatusError{Status: 503}, doubtful},
		{vllm.StatusError{Status: 502}, doubtful},
		{vllm.StatusError{Status: 504, Empty: true}, doubtful},
		{vllm.StatusError{Status: 500}, well},
		{vllm.StatusError{Status: 404, Empty: true}, well},
	} {
		if got := fateBy(&tt.answer); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.answer, got, tt.want)
		}
	}
}
