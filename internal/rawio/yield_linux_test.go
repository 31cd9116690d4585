//go:build linux && !race && !386

package rawio_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/rawio"
)

// TestYieldServesTheNetwork: what has come on a connection is served before a
// goroutine that yields goes on, with one processor to share.
func TestYieldServesTheNetwork(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a, b := pair(t)
	var served atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := make([]byte, 1)
		for {
			if _, err := b.Read(p); err != nil {
				return
			}
			served.Add(1)
		}
	}()
	time.Sleep(10 * time.Millisecond) // it waits
	late := 0
	const rounds = 200
	for i := range int64(rounds) {
		if _, err := a.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		rawio.Yield()
		if served.Load() <= i {
			late++
			for served.Load() <= i {
				time.Sleep(time.Millisecond)
			}
		}
	}
	if late > rounds/10 { // preemption may have its say
		t.Errorf("in %d of %d rounds the network was not served first", late, rounds)
	}
	a.Close()
	<-done
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
