package faultbench_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/vllm"
)

// terse is a replica that answers one generation request well, and each after it
// with the same bytes, after which it closes the connection.
type terse struct {
	net.Listener
	answer string
	posts  atomic.Int32
	kept   atomic.Int32 // of these on a connection that had been used before
	wg     sync.WaitGroup
}

func serveTerse(t *testing.T, answer string) *terse {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &terse{Listener: l, answer: answer}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); s.wg.Wait() })
	return s
}

func (s *terse) serve(c net.Conn) {
	const good = `{"id":"x","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"length"}]}`
	defer c.Close()
	br := bufio.NewReader(c)
	for i := 0; ; i++ {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if i > 0 {
			s.kept.Add(1)
		}
		if s.posts.Add(1) > 1 {
			_, _ = io.WriteString(c, s.answer)
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(good), good)
	}
}

// TestF6BrokenHeadIsNotStale: a replica that has begun to answer on a kept
// connection had not closed it because it was idle: that attempt counts, and the
// request is not sent to it again.
func TestF6BrokenHeadIsNotStale(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
	}{
		{"F6 half a head", "HTTP/1.1 200 OK\r\nContent-Type: text/eve"},
		{"F6 informational", "HTTP/1.1 100 Continue\r\n\r\n"},
		{"F6 not HTTP", "SSH-2.0-OpenSSH_9\r\n\r\n"},
		{"F6 large head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serveTerse(t, tc.answer)
			h := faultbench.Open(t, faultbench.Options{Unseen: true, Loose: true, Config: func(c *expediter.Config) {
				c.Scrape, c.Parity = -1, -1
				c.Retry.Attempts = 1
			}})
			h.Pool.Remove(h.Members[0])
			if _, err := h.Pool.Add(registry.ReplicaConfig{Name: "terse", URL: "http://" + s.Addr().String()}); err != nil {
				t.Fatal(err)
			}
			if a := h.Do(t.Context(), faultbench.Request{MaxTokens: 1}); !a.OK() {
				t.Fatalf("%v, status %d: %s", a.Err, a.Status, a.Body)
			}
			a := h.Do(t.Context(), faultbench.Request{MaxTokens: 1})
			if a.Status != 502 || a.Code == "request_crashes_engine" {
				t.Errorf("status %d: %s, want a 502 of another kind", a.Status, a.Body)
			}
			if posts, kept := s.posts.Load()-1, s.kept.Load(); posts != 1 || kept != 1 {
				t.Errorf("sent %d times, %d of them on kept connections, want 1 and 1", posts, kept)
			}
		})
	}
}

// TestF12BrokenHeadIsNoDeath: replicas that take too long for a head, or send one
// that is none, were not taken down by the request.
func TestF12BrokenHeadIsNoDeath(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script faultbench.Script
	}{
		{"F12 late head", faultbench.Script{End: faultbench.Silent}},
		{"F12 large head", faultbench.Script{Header: http.Header{"X": {strings.Repeat("x", 70<<10)}}}},
		{"F12 field that is none", faultbench.Script{Header: http.Header{"nonsense\r\nX": {"x"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := faultbench.Open(t, faultbench.Options{
				Replicas: 4,
				Config: func(c *expediter.Config) {
					c.Scrape = -1
					c.Pools[0].Transport = vllm.NewTransport(vllm.TransportConfig{HeaderTimeout: 200 * time.Millisecond})
				},
				Respond: func(*faultbench.Got) faultbench.Script { return tc.script },
			})
			a := h.Do(t.Context(), faultbench.Request{MaxTokens: 5})
			if a.Status != 502 || a.Code == "request_crashes_engine" {
				t.Errorf("status %d: %s, want a 502 of another kind", a.Status, a.Body)
			}
			h.Check()
			if r := h.Records()[0]; r.Attempts != 3 {
				t.Errorf("%d attempts, want 3", r.Attempts)
			}
		})
	}
}
