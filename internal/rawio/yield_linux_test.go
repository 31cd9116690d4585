//go:build linux && !386

package rawio_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/expediterhq/expediter/internal/rawio"
)

// TestYieldServesTheNetwork: what has come on a connection is served before a
// goroutine that yields goes on, with one processor to share.
func TestYieldServesTheNetwork(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a, b := pair(t)
	const rounds = 200
	served := make(chan struct{}, rounds+1)
	go func() {
		defer close(served)
		p := make([]byte, 1)
		for {
			if _, err := b.Read(p); err != nil {
				return
			}
			served <- struct{}{}
		}
	}()
	serve := func() (late bool) {
		if _, err := a.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		rawio.Yield()
		late = len(served) == 0
		if _, ok := <-served; !ok {
			t.Fatal("the connection broke")
		}
		return late
	}
	serve() // it reads from now on
	late := 0
	for range rounds {
		if serve() {
			late++
		}
	}
	if late > rounds/2 { // preemption and the system's own threads may have their say
		t.Errorf("in %d of %d rounds the network was not served first", late, rounds)
	}
	a.Close()
	<-served
}

// TestYieldInBubbles: what one bubble of synctest has used, others use, and code
// outside.
func TestYieldInBubbles(t *testing.T) {
	for range 2 {
		synctest.Test(t, func(*testing.T) { rawio.Yield() })
	}
	rawio.Yield()
}

// TestYieldOfMany: more than there are turns, all come back, and at no cost in memory.
func TestYieldOfMany(t *testing.T) {
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for range 100 {
				rawio.Yield()
			}
		})
	}
	wg.Wait()
	if n := testing.AllocsPerRun(100, rawio.Yield); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
