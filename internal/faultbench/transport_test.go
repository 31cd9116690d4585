package faultbench_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
)

// closeIdle lets go of a transport's idle connections.
func closeIdle(t http.RoundTripper) { t.(interface{ CloseIdleConnections() }).CloseIdleConnections() }

// TestM2ConnectionsAreKept: streams and whole answers share a few connections,
// also when the end of a body comes after [DONE] by itself.
func TestM2ConnectionsAreKept(t *testing.T) {
	const requests, together = 1600, 8
	for _, stream := range []bool{true, false} {
		h := faultbench.Open(t, faultbench.Options{
			Config: func(c *expediter.Config) { c.Scrape = -1 },
			Respond: func(g *faultbench.Got) faultbench.Script {
				sc := faultbench.Speak(g).Script()
				if g.Ask.Stream { // the terminating chunk comes late
					sc.Pieces = append(sc.Pieces, faultbench.Piece{Pause: time.Millisecond})
				}
				return sc
			},
		})
		var wg sync.WaitGroup
		for range together {
			wg.Go(func() {
				for range requests / together {
					if a := h.Do(context.Background(), faultbench.Request{Stream: stream, MaxTokens: 2}); !a.OK() {
						t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
					}
				}
			})
		}
		wg.Wait()
		// So many that end are the most that can be left in TIME_WAIT.
		if n := h.Replicas[0].Conns(); n > together+requests/100 {
			t.Errorf("stream %t: %d connections for %d requests, %d at a time", stream, n, requests, together)
		}
		h.Close()
	}
}

// TestM2Churn: requests in open loop need hardly a new connection once there are
// as many as are used at a time.
func TestM2Churn(t *testing.T) {
	rate, seconds := full(200, 1000), full(2, 60)
	h := faultbench.Open(t, faultbench.Options{
		Replicas: 4,
		Config:   func(c *expediter.Config) { c.Scrape = -1 },
		Respond: func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			s.TTFT = 50 * time.Millisecond
			return s.Script()
		},
	})
	conns := func() (n int) {
		for _, r := range h.Replicas {
			n += r.Conns()
		}
		return n
	}
	load := func(requests int) {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		var wg sync.WaitGroup
		for i := range requests {
			<-tick.C
			wg.Go(func() {
				if a := h.Do(context.Background(), faultbench.Request{Stream: i%2 == 0, MaxTokens: 1}); !a.OK() {
					t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
				}
			})
		}
		wg.Wait()
	}
	load(2 * rate)
	warm := conns()
	load(rate * seconds)
	together := 0
	for _, r := range h.Replicas {
		together += r.Peak()
	}
	// Beside one connection for each request at a time, one for a hundred.
	if n := conns(); n > together+rate*(seconds+2)/100 {
		t.Errorf("%d connections for %d requests, %d at a time", n, rate*(seconds+2), together)
	} else {
		t.Logf("%d connections for %d requests, %d at a time; %d of them after the first 2 s", n, rate*(seconds+2), together, n-warm)
	}
}

// TestM1IdleConnectionClosed: a replica that closes idle connections early
// costs attempts, which are counted, but no client an answer.
func TestM1IdleConnectionClosed(t *testing.T) {
	const together = 10
	requests := full(400, 20_000)
	h := faultbench.Open(t, faultbench.Options{
		Replicas: 2, Unseen: true,
		Replica: func(_ int, r *faultbench.Replica) { r.Idle = 10 * time.Millisecond },
		Config:  func(c *expediter.Config) { c.Scrape = -1 },
	})
	var wg sync.WaitGroup
	for i := range together {
		wg.Go(func() {
			for n := range requests / together {
				gap := time.NewTimer(9*time.Millisecond + time.Duration((n*together+i)%20)*100*time.Microsecond)
				<-gap.C
				if a := h.Do(context.Background(), faultbench.Request{Stream: n%2 == 0, MaxTokens: 2}); !a.OK() {
					t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
				}
			}
		})
	}
	wg.Wait()
	h.Check()
	attempts := 0
	for _, r := range h.Records() {
		attempts += r.Attempts
	}
	t.Logf("%d requests, %d attempts, %d in the ledgers", requests, attempts, h.Ledger.Len())
}
