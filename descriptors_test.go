package expediter_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
)

// exhausted makes connections to replicas fail, while on, as they do in a process
// that has no descriptors left.
func exhausted(on *atomic.Bool) func(*expediter.Config) {
	return func(c *expediter.Config) {
		tr := c.Pools[0].Transport.(*http.Transport)
		dial := tr.DialContext
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if on.Load() {
				return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("socket", syscall.EMFILE)}
			}
			return dial(ctx, network, addr)
		}
	}
}

// TestNoDescriptorsIsNoDeath: replicas that lose a connection while the gateway
// cannot open another are not taken for dead.
func TestNoDescriptorsIsNoDeath(t *testing.T) {
	var none atomic.Bool
	inMemory(t, option{replicas: 3, front: crashing(false, 2), config: exhausted(&none)}, func(t *testing.T, h *house) {
		time.Sleep(3 * time.Second) // all have reported
		var wg sync.WaitGroup
		for i := range 24 { // connections are kept, also for the reports
			wg.Go(func() { h.chat(chatBody(true, 5, fmt.Sprint("harmless ", i))) })
		}
		wg.Wait()
		none.Store(true)
		if status, body := h.chat(chatBody(true, 5, "poison")); status != 200 {
			t.Errorf("status %d, body %s", status, body)
		}
		if r := h.records.wait(t, 25)[24]; r.Attempts != 3 {
			t.Errorf("%d attempts, want 3", r.Attempts)
		}
	})
}

// TestNoDescriptorsIsNoFailure: that the gateway could not connect is not held
// against a replica.
func TestNoDescriptorsIsNoFailure(t *testing.T) {
	var none atomic.Bool
	config := func(c *expediter.Config) {
		exhausted(&none)(c)
		c.Scrape = -1
	}
	inMemory(t, option{replicas: 3, config: config}, func(t *testing.T, h *house) {
		none.Store(true)
		for range 10 {
			if status, body := h.chat(chatBody(false, 5, "hello")); status != 502 {
				t.Errorf("without descriptors: status %d, body %s, want 502", status, body)
			}
		}
		for _, r := range h.replicas {
			if n, _ := r.reg.Failures(); n != 0 {
				t.Errorf("%s: %d failures, want none", r.reg.Name(), n)
			}
		}
		none.Store(false)
		if status, body := h.chat(chatBody(false, 5, "hello")); status != 200 {
			t.Errorf("with descriptors again: status %d, body %s", status, body)
		}
	})
}
