package expediter_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tenant"
)

// inMemory runs f in a bubble with a house over an in-memory network, so that
// waits are exact.
func inMemory(t *testing.T, o option, f func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.net = &sim.Network{}
		h := open(t, o)
		f(t, h)
		h.close()
	})
}

// hang never answers generation requests.
func hang(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
}

// TestFirstTokenTimeout: the stalled attempt ends at the limit, the next
// one answers, and there are two executions and one charge.
func TestFirstTokenTimeout(t *testing.T) {
	gone := make(chan time.Duration, 1)
	inMemory(t, option{
		replicas: 2,
		config:   func(c *expediter.Config) { c.Timeouts.FirstToken = 300 * time.Millisecond },
		front: func(i int, next http.Handler) http.Handler {
			if i == 1 {
				return next
			}
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				began := time.Now()
				hang(next).ServeHTTP(w, r)
				if r.Method == http.MethodPost {
					gone <- time.Since(began)
				}
			})
		},
	}, func(t *testing.T, h *house) {
		h.replicas[1].reg.Drain()
		time.Sleep(time.Second) // both have reported
		go func() {
			time.Sleep(100 * time.Millisecond)
			h.replicas[1].reg.Resume()
		}()
		began := time.Now()
		status, body := h.chat(chatBody(true, 3, "hi"))
		if status != 200 || strings.Count(body, `"role"`) != 1 {
			t.Fatalf("status %d, body %s", status, body)
		}
		if d := <-gone; d != 300*time.Millisecond {
			t.Errorf("the stalled attempt ended after %v, want 300ms", d)
		}
		if d := time.Since(began); d < 300*time.Millisecond || d > 400*time.Millisecond {
			t.Errorf("answered after %v, want 300 ms and what the second replica takes", d)
		}
		r := h.records.wait(t, 1)[0]
		if r.Attempts != 2 || r.Status != expediter.StatusOK || r.Charged != int64(r.Input+3) {
			t.Errorf("record = %+v, want ok at the second attempt, charged once", r)
		}
	})
}

// TestSilence: a stream that falls silent ends at the limit, and so does one whose
// events say nothing, or count tokens past those that were allowed.
func TestSilence(t *testing.T) {
	const empty = `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]%s}`
	for _, tt := range []struct {
		name   string
		more   func(i int) string // one each 100 ms
		output int
		want   time.Duration
	}{
		{"nothing", nil, 2, time.Second},
		{"empty deltas", func(int) string { return fmt.Sprintf(empty, "") }, 2, time.Second},
		{"the same usage", func(int) string { return fmt.Sprintf(empty, `,"usage":{"prompt_tokens":7,"completion_tokens":2}`) }, 2, time.Second},
		{"tokens without text", func(i int) string { // the first at 0 s makes three; 30 are allowed, and 64 more
			return fmt.Sprintf(empty, fmt.Sprintf(`,"usage":{"prompt_tokens":7,"completion_tokens":%d}`, 3+i))
		}, 30, 91*100*time.Millisecond + time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{answer: func(w http.ResponseWriter, r *http.Request) {
				sse(w, roleChunk, contentChunk, contentChunk)
				for i := 0; tt.more != nil && r.Context().Err() == nil; i++ {
					sse(w, tt.more(i))
					select {
					case <-r.Context().Done():
					case <-time.After(100 * time.Millisecond):
					}
				}
				<-r.Context().Done()
			}}
			config := func(c *expediter.Config) { c.Timeouts.Silence = time.Second }
			inMemory(t, option{config: config, front: s.front}, func(t *testing.T, h *house) { silent(t, h, tt.want, tt.output) })
		})
	}
}

// silent takes a stream that ends after a time and so many tokens.
func silent(t *testing.T, h *house, after time.Duration, output int) {
	t.Helper()
	began := time.Now()
	resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 30, "hi"))
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil || !strings.Contains(string(body), "upstream_error") {
		t.Errorf("stream = %s, error %v; want an error event and a broken end", body, err)
	}
	if d := time.Since(began); d != after {
		t.Errorf("ended after %v, want %v", d, after)
	}
	if r := h.records.wait(t, 1)[0]; r.Status != expediter.StatusTruncated || r.Output != output {
		t.Errorf("record = %+v, want truncated after %d tokens", r, output)
	}
}

// TestSlowStreamLives: neither a long stream nor one slower than the time
// for headers is cut.
func TestSlowStreamLives(t *testing.T) {
	inMemory(t, option{
		config: func(c *expediter.Config) {
			c.Timeouts = expediter.Timeouts{FirstToken: time.Second, Silence: time.Second, Write: time.Second, Answer: time.Second}
		},
		front: func(_ int, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					next.ServeHTTP(w, r)
					return
				}
				io.Copy(io.Discard, r.Body)
				for range 200 {
					sse(w, contentChunk)
					time.Sleep(900 * time.Millisecond)
				}
				sse(w, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]")
			})
		},
	}, func(t *testing.T, h *house) {
		status, body := h.chat(chatBody(true, 1000, "hi"))
		if status != 200 || !strings.HasSuffix(body, "data: [DONE]\n\n") || strings.Count(body, `"content":"a"`) != 200 {
			t.Errorf("status %d, body %s", status, body)
		}
	})
}

// TestSlowClientIsNotSilence: a client that reads nothing for longer than a replica
// may be silent, but not than a write may take, gets the whole stream, and the
// replica is not blamed.
func TestSlowClientIsNotSilence(t *testing.T) {
	const tokens = 4000 // more than all buffers on the way hold
	inMemory(t, option{
		config: func(c *expediter.Config) { c.Timeouts.Silence, c.Timeouts.Write = time.Second, 30*time.Second },
		front: func(_ int, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					next.ServeHTTP(w, r)
					return
				}
				io.Copy(io.Discard, r.Body)
				for range tokens {
					sse(w, contentChunk)
				}
				sse(w, finishChunk, "[DONE]")
			})
		},
	}, func(t *testing.T, h *house) {
		resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, tokens, "hi"))
		time.Sleep(10 * time.Second)
		body := readAll(t, resp)
		if n := strings.Count(body, `"content":"a"`); n != tokens || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("%d tokens that end with %q, want %d", n, body[max(len(body)-100, 0):], tokens)
		}
		if n, _ := h.replicas[0].reg.Failures(); n != 0 {
			t.Errorf("%d failures held against the replica, want none", n)
		}
		if r := h.records.wait(t, 1)[0]; r.Status != expediter.StatusOK {
			t.Errorf("record = %+v", r)
		}
	})
}

// TestClientLeaves: in every phase the replica's connection
// ends at once, and everything is given back.
func TestClientLeaves(t *testing.T) {
	for _, tc := range []struct {
		name     string
		body     string
		scripted []string // events before the replica falls silent; nil: it never answers
	}{
		{"waiting for headers, not streamed", chatBody(false, 50, "hi"), nil},
		{"waiting for headers", chatBody(true, 50, "hi"), nil},
		{"after the role chunk", chatBody(true, 50, "hi"), []string{roleChunk}},
		{"silent in the middle", chatBody(true, 50, "hi"), []string{roleChunk, contentChunk, contentChunk, contentChunk}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gone := make(chan time.Time, 1)
			inMemory(t, option{front: func(_ int, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodPost {
						next.ServeHTTP(w, r)
						return
					}
					io.Copy(io.Discard, r.Body)
					if tc.scripted != nil {
						sse(w, tc.scripted...)
					}
					<-r.Context().Done()
					gone <- time.Now()
				})
			}}, func(t *testing.T, h *house) {
				ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
				defer cancel()
				began := time.Now()
				r, err := http.NewRequestWithContext(ctx, "POST", h.url+"/v1/chat/completions", strings.NewReader(tc.body))
				must(t, err)
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+h.key)
				if resp, err := h.client.Do(r); err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if d := (<-gone).Sub(began); d != 700*time.Millisecond {
					t.Errorf("the replica was let go after %v, want 700ms: the moment the client left", d)
				}
				rec := h.records.wait(t, 1)[0]
				if rec.Status != expediter.StatusCancelled || rec.HTTPStatus != 499 && tc.scripted == nil || rec.Charged != int64(rec.Input+rec.Output) {
					t.Errorf("record = %+v, want cancelled and charged for what was produced", rec)
				}
			})
		})
	}
}

// TestQueueDeadline: requests in line are answered at their deadline,
// those whose client leaves never reach a replica, and the rest are served
// when room appears.
func TestQueueDeadline(t *testing.T) {
	inMemory(t, option{
		sim:    func(c *sim.Config) { c.KVTokens = 4096; c.MaxModelLen = 4096; c.Speed = 1 },
		tenant: func(tn *tenant.Tenant) { tn.TTFT = 500 * time.Millisecond },
	}, func(t *testing.T, h *house) {
		time.Sleep(time.Second) // the capacity is known
		first := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 800, strings.Repeat("word ", 2000)))
		defer first.Body.Close()
		began := time.Now()
		status, body := h.chat(chatBody(false, 10, strings.Repeat("other ", 1000)))
		if status != 429 || !strings.Contains(body, "overloaded") {
			t.Errorf("status %d, body %s; want 429 at the deadline", status, body)
		}
		if d := time.Since(began); d != 500*time.Millisecond {
			t.Errorf("answered after %v, want 500ms", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "POST", h.url+"/v1/chat/completions", strings.NewReader(chatBody(false, 10, strings.Repeat("third ", 1000))))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+h.key)
		if _, err := h.client.Do(r); err == nil {
			t.Error("a request in line was answered before its client left")
		}
		synctest.Wait()
		if n := len(h.replicas[0].Requests()); n != 1 {
			t.Errorf("the replica got %d requests, want 1", n)
		}
		recs := h.records.all()
		if len(recs) != 2 || recs[0].Status != expediter.StatusRefused || recs[1].Status != expediter.StatusCancelled || recs[1].Charged != 0 {
			t.Errorf("records = %+v, want one refused and one cancelled without a charge", recs)
		}
		first.Body.Close()
		synctest.Wait()
		if status, body := h.chat(chatBody(false, 10, strings.Repeat("fourth ", 1000))); status != 200 {
			t.Errorf("after the first left: status %d, body %s", status, body)
		}
	})
}

// TestDrain: readiness goes first, short streams end well, long ones
// get an error event at the end of the grace period, new ones a 503.
func TestDrain(t *testing.T) {
	inMemory(t, option{sim: func(c *sim.Config) { c.Speed = 1 }}, func(t *testing.T, h *house) {
		stream := func(n int) (*http.Response, *bufio.Reader) {
			resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, n, "hi"))
			return resp, bufio.NewReader(resp.Body)
		}
		short, shortBody := stream(50)
		long, longBody := stream(5000)
		defer short.Body.Close()
		defer long.Body.Close()
		began := time.Now()
		drained := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			drained <- h.handler.Drain(ctx)
		}()
		synctest.Wait()
		resp, err := h.client.Get(h.url + "/readyz")
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != 503 {
			t.Errorf("/readyz while draining = %d, want 503", resp.StatusCode)
		}
		if status, _ := h.chat(chatBody(true, 5, "hi")); status != 503 {
			t.Errorf("a new request while draining = %d, want 503", status)
		}
		b, err := io.ReadAll(shortBody)
		if err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
			t.Errorf("the short stream ended with %v: %s", err, b)
		}
		b, err = io.ReadAll(longBody)
		if err == nil || !strings.Contains(string(b), "shutting_down") {
			t.Errorf("the long stream ended with %v, want an error event and a broken end", err)
		}
		if err := <-drained; err == nil {
			t.Error("Drain = nil, want the deadline's error: a stream was cut")
		}
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("drained after %v, want 10s", d)
		}
	})
}

// TestLargeAmongSmall: small requests overtake one that does not fit, but
// not for ever: room is kept for it, and it is served within its deadline.
func TestLargeAmongSmall(t *testing.T) {
	inMemory(t, option{
		sim:    func(c *sim.Config) { c.KVTokens = 8192; c.MaxModelLen = 8192; c.Speed = 1 },
		tenant: func(tn *tenant.Tenant) { tn.TTFT = 20 * time.Second },
	}, func(t *testing.T, h *house) {
		time.Sleep(time.Second) // the capacity is known
		stop := make(chan struct{})
		var small sync.WaitGroup
		var slow atomic.Int32
		for i := range 14 {
			small.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					began := time.Now()
					resp := h.post(context.Background(), "/v1/chat/completions", chatBody(true, 100, fmt.Sprint(i, n, strings.Repeat(" small", 250))))
					if time.Since(began) > 5*time.Second {
						slow.Add(1)
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		time.Sleep(2 * time.Second)
		status, body := h.chat(chatBody(false, 100, strings.Repeat("large ", 3600)))
		if status != 200 {
			t.Errorf("the large request: status %d, body %s", status, body)
		}
		close(stop)
		small.Wait()
		if n := slow.Load(); n > 0 {
			t.Errorf("%d small requests waited over 5 s", n)
		}
		var last expediter.Record
		for _, r := range h.records.all() {
			if r.Input > 5000 {
				last = r
			}
		}
		if last.QueueWait < time.Second || last.QueueWait > 10*time.Second {
			t.Errorf("the large request waited %v, want over 1 s (it was overtaken) and under 10 s", last.QueueWait)
		}
	})
}
