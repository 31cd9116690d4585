package faultbench_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
)

// TestE1OverHTTP2: the same where many streams share a connection: a client
// that resets its stream, and one that takes the whole connection with it.
func TestE1OverHTTP2(t *testing.T) {
	for name, whole := range map[string]bool{"E1 RST_STREAM": false, "E1 connection": true} {
		t.Run(name, func(t *testing.T) {
			const conns, streams = 3, 100
			h := faultbench.Open(t, faultbench.Options{Secure: true, Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
				sc := faultbench.Stream(faultbench.Speak(g).Deltas(5)...)
				sc.End = faultbench.Stall
				return sc
			}})
			left := make([]time.Time, conns*streams)
			asks := make([]string, conns*streams)
			var wg sync.WaitGroup
			for c := range conns {
				wg.Go(func() {
					for i, at := range leaveHTTP2(t, h, streams, whole) {
						asks[c*streams+i], left[c*streams+i] = at.own, at.left
					}
				})
			}
			wg.Wait()
			h.Check()
			late := cancelDelays(t, h, asks, left)
			t.Logf("the replica saw it after %v (p50), %v (p99)", late[len(late)/2], late[len(late)*99/100])
			for _, r := range h.Records() {
				if r.Status != expediter.StatusCancelled || r.Output != 5 || r.Charged != 12 {
					t.Fatalf("record = %+v", r)
				}
			}
		})
	}
}

// departure is when the client of a request left.
type departure struct {
	own  string
	left time.Time
}

// leaveHTTP2 opens streams on one connection, reads five deltas of each, and
// leaves them one by one or all at once.
func leaveHTTP2(t *testing.T, h *faultbench.House, streams int, whole bool) []departure {
	var d net.Dialer
	conn := make(chan net.Conn, 1)
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: h.TLS.Clone(), DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, addr)
		if err == nil {
			conn <- c // one only: a second would never get by
		}
		return c, err
	}}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	out := make([]departure, streams)
	var heard, gone sync.WaitGroup
	leave := make(chan struct{})
	for i := range out {
		r := faultbench.Request{Stream: true, MaxTokens: 500}
		_, out[i].own = r.Body()
		if i == 1 {
			heard.Wait() // the connection exists
		}
		heard.Add(1)
		gone.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			err := deltasHTTP2(ctx, client, h, r, 5)
			heard.Done()
			if err != nil {
				t.Errorf("stream %d: %v", i, err)
			}
			<-leave
			if !whole {
				out[i].left = time.Now()
				cancel()
			}
		})
	}
	heard.Wait()
	now := time.Now()
	if whole {
		_ = (<-conn).Close()
		for i := range out {
			out[i].left = now
		}
	}
	close(leave)
	gone.Wait()
	return out
}

// deltasHTTP2 begins a stream, which goes on until ctx ends, and reads n deltas.
func deltasHTTP2(ctx context.Context, client *http.Client, h *faultbench.House, r faultbench.Request, n int) error {
	body, _ := r.Body()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+h.Key)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = resp.Body.Close() })
	if resp.ProtoMajor != 2 {
		return fmt.Errorf("%s, want HTTP/2", resp.Proto)
	}
	l := faultbench.Leaver{R: bufio.NewReader(resp.Body)}
	return l.Deltas(n)
}
