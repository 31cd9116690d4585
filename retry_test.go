package expediter_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
)

// failing answers generation requests itself while on, and passes all else.
type failing struct {
	on    atomic.Bool
	do    http.HandlerFunc
	count atomic.Int32
}

func (f *failing) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && f.on.Load() {
			f.count.Add(1)
			io.Copy(io.Discard, r.Body)
			f.do(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func sse(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, e := range events {
		io.WriteString(w, "data: "+e+"\n\n")
		w.(http.Flusher).Flush()
	}
}

const (
	roleChunk    = `{"id":"x","object":"chat.completion.chunk","model":"acme-8b","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	contentChunk = `{"id":"x","object":"chat.completion.chunk","model":"acme-8b","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`
)

// TestRetryBeforeFirstToken: whatever a replica does before its first token,
// another one answers and the client sees one clean answer and one charge.
// TestTriedOnceMore: where all replicas that are left were tried, and others are
// out of rotation, one of those tried gets another try, but not the last.
func TestTriedOnceMore(t *testing.T) {
	var mu sync.Mutex
	var order []int
	front := func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				mu.Lock()
				order = append(order, i)
				n := len(order)
				mu.Unlock()
				if n <= 2 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
	inMemory(t, option{replicas: 4, front: front}, func(t *testing.T, h *house) {
		time.Sleep(3 * time.Second)
		for _, r := range h.pool.Replicas()[2:] {
			r.Drain()
		}
		if status, body := h.chat(chatBody(true, 5, "hello")); status != 200 {
			t.Errorf("status %d, body %s", status, body)
		}
		if r := h.records.wait(t, 1)[0]; r.Attempts != 3 {
			t.Errorf("%d attempts, want 3", r.Attempts)
		}
		if len(order) != 3 || order[0] == order[1] || order[2] != order[0] {
			t.Errorf("tried in the order %v", order)
		}
	})
}

func TestRetryBeforeFirstToken(t *testing.T) {
	reset := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, tc := range []struct {
		name   string
		stream bool
		do     http.HandlerFunc
	}{
		{"reset, stream", true, reset},
		{"reset", false, reset},
		{"503", true, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", 503) }},
		{"500", false, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", 500) }},
		{"redirect", true, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://169.254.169.254/", 307) }},
		{"role chunk, then nothing", true, func(w http.ResponseWriter, _ *http.Request) {
			sse(w, roleChunk)
			panic(http.ErrAbortHandler)
		}},
		{"bare [DONE]", true, func(w http.ResponseWriter, _ *http.Request) { sse(w, "[DONE]") }},
		{"role chunk and [DONE]", true, func(w http.ResponseWriter, _ *http.Request) { sse(w, roleChunk, "[DONE]") }},
		{"error event of code 500", true, func(w http.ResponseWriter, _ *http.Request) {
			sse(w, `{"error":{"message":"EngineCore died","type":"InternalServerError","code":500}}`, "[DONE]")
		}},
		{"abort", true, func(w http.ResponseWriter, _ *http.Request) {
			sse(w, roleChunk, `{"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}`, "[DONE]")
		}},
		{"whole answer with abort", false, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"choices":[{"index":0,"message":{"content":""},"finish_reason":"abort"}]}`)
		}},
		{"body shorter than its length", false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"choices":[`)
		}},
		{"not JSON", false, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }},
		{"stream of no JSON", true, func(w http.ResponseWriter, _ *http.Request) { sse(w, "<html>") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := &failing{do: tc.do}
			h := open(t, option{replicas: 2, front: func(i int, next http.Handler) http.Handler {
				if i == 0 {
					return bad.front(next)
				}
				return next
			}})
			bad.on.Store(true)
			n := 0
			for bad.count.Load() == 0 { // until the bad one was chosen first
				n++
				if n > 50 {
					t.Fatal("the failing replica was never chosen")
				}
				status, body := h.chat(chatBody(tc.stream, 3, strings.Repeat("x", n)))
				if status != 200 || tc.stream && (strings.Count(body, `"role"`) != 1 || !strings.HasSuffix(body, "data: [DONE]\n\n")) {
					t.Fatalf("status %d, body %s", status, body)
				}
			}
			// Up to four losses of kept connections do not count as tries.
			last := h.records.wait(t, n)[n-1]
			if last.Attempts < 2 || last.Attempts > 6 || last.Status != expediter.StatusOK || last.Output != 3 || last.Replica != "r1" {
				t.Errorf("record = %+v, want r1 to succeed after r0 failed", last)
			}
		})
	}
}

// TestNoRetryAfterFirstToken: a stream that breaks after its first token is
// not tried elsewhere, ends so that nobody takes it for complete, and is
// charged for what the client got.
func TestNoRetryAfterFirstToken(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   http.HandlerFunc
		says string // what the client must find in the stream
	}{
		{"reset", func(w http.ResponseWriter, _ *http.Request) {
			sse(w, roleChunk, contentChunk, contentChunk)
			panic(http.ErrAbortHandler)
		}, "upstream_error"},
		{"clean end without finish reason", func(w http.ResponseWriter, _ *http.Request) { sse(w, roleChunk, contentChunk) }, "upstream_error"},
		{"[DONE] without finish reason", func(w http.ResponseWriter, _ *http.Request) { sse(w, roleChunk, contentChunk, "[DONE]") }, "upstream_error"},
		{"error event", func(w http.ResponseWriter, _ *http.Request) {
			sse(w, roleChunk, contentChunk, `{"error":{"message":"EngineCore died","type":"InternalServerError","code":500}}`, "[DONE]")
		}, "EngineCore died"},
		{"half an event", func(w http.ResponseWriter, _ *http.Request) {
			sse(w, roleChunk, contentChunk)
			io.WriteString(w, `data: {"HALF`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "upstream_error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := &failing{do: tc.do}
			bad.on.Store(true)
			h := open(t, option{replicas: 2, front: func(_ int, next http.Handler) http.Handler { return bad.front(next) }})
			resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 50, "hi"))
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			body := string(b)
			if err == nil {
				t.Errorf("the stream ended cleanly: %s", body)
			}
			if strings.Count(body, tc.says) != 1 || strings.Contains(body, "[DONE]") || strings.Contains(body, "HALF") {
				t.Errorf("stream = %s, want one error that says %q, no [DONE], no half event", body, tc.says)
			}
			r := h.records.wait(t, 1)[0]
			if r.Status != expediter.StatusTruncated || r.Attempts != 1 || r.HTTPStatus != 200 || r.Charged != int64(r.Input+r.Output) || r.Output == 0 {
				t.Errorf("record = %+v, want truncated at the first attempt, charged for its tokens", r)
			}
			if n := bad.count.Load(); n != 1 {
				t.Errorf("%d attempts, want 1", n)
			}
		})
	}
}

// TestCancelMidStream: the replica sees the client leave and the tenant pays
// for what was produced.
func TestCancelMidStream(t *testing.T) {
	h := open(t, option{})
	ctx, cancel := context.WithCancel(t.Context())
	resp := h.post(ctx, "/v1/chat/completions", chatBody(true, 20_000, "hi"))
	lines := bufio.NewScanner(resp.Body)
	for seen := 0; seen < 6 && lines.Scan(); {
		if strings.Contains(lines.Text(), `"content":"`) {
			seen++
		}
	}
	cancel()
	resp.Body.Close()
	r := h.records.wait(t, 1)[0]
	if r.Status != expediter.StatusCancelled || r.EndedBy != expediter.ByClient || r.Output < 5 || r.Estimated {
		t.Errorf("record = %+v, want cancelled by the client after 5 tokens or more, exact", r)
	}
	if r.Charged != int64(r.Input+r.Output) {
		t.Errorf("charged %d, want %d", r.Charged, r.Input+r.Output)
	}
	waitFor(t, "the abort at the replica", func() bool {
		got := h.replicas[0].Requests()
		return len(got) == 1 && !got[0].Aborted.IsZero()
	})
}

// waitFor returns once ok holds, for what no channel tells.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// TestLoseOneReplica: of several replicas under load one goes away; no
// request without a token fails.
func TestLoseOneReplica(t *testing.T) {
	h := open(t, option{replicas: 3})
	var wg sync.WaitGroup
	var cut atomic.Int32
	send := time.NewTicker(5 * time.Millisecond)
	defer send.Stop()
	const total = 300
	for i := range total {
		<-send.C
		if i == total/3 {
			h.replicas[0].http.CloseClientConnections()
			go h.replicas[0].http.Close()
		}
		wg.Go(func() {
			resp := h.post(context.Background(), "/v1/chat/completions", chatBody(i%2 == 0, 20, "request "+strings.Repeat("y", i)))
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			switch {
			case resp.StatusCode != 200:
				t.Errorf("request %d failed: %d %s", i, resp.StatusCode, b)
			case err != nil:
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("request %d: %v", i, err)
				}
				cut.Add(1)
			}
		})
	}
	wg.Wait()
	recs := h.records.wait(t, total)
	for _, r := range recs {
		if r.Status != expediter.StatusOK && r.TTFT == 0 {
			t.Errorf("a request without a token failed: %+v", r)
		}
	}
	t.Logf("%d streams were cut after their first token", cut.Load())
}
