package expediter_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
)

// farewell is a transport to replicas that say something more when their
// request is ended, as engines do, and are heard.
type farewell struct {
	*http.Transport // for all but generation requests

	status      int
	first, last string        // of the body; without a first the head comes with the last
	waiting     chan struct{} // closed when nothing is left to read but the last
}

func (f *farewell) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return f.Transport.RoundTrip(r)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	body := &parting{farewell: f, ended: r.Context().Done(), rest: f.first}
	if f.first == "" {
		body.wait()
	}
	kind := "application/json"
	if strings.HasPrefix(f.first, "data:") {
		kind = "text/event-stream"
	}
	return &http.Response{StatusCode: f.status, Header: http.Header{"Content-Type": {kind}}, Body: body, Request: r}, nil
}

// parting is the body of such an answer.
type parting struct {
	*farewell
	ended <-chan struct{}
	rest  string
	over  bool
}

func (p *parting) wait() {
	close(p.waiting)
	<-p.ended
	p.rest, p.over = p.last, true
}

func (p *parting) Read(b []byte) (int, error) {
	if p.rest == "" && !p.over {
		p.wait()
	}
	if p.rest == "" {
		return 0, io.EOF
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *parting) Close() error { return nil }

// TestDepartureAfterAFailure: a client that leaves, or a gateway that ends, while a
// failed attempt is looked into is not told of the failure.
func TestDepartureAfterAFailure(t *testing.T) {
	for _, tt := range []struct {
		name   string
		end    func(h *house, leave func())
		status expediter.Status
		by     expediter.Party
		http   int
	}{
		{"the client leaves", func(_ *house, leave func()) { leave() }, expediter.StatusCancelled, expediter.ByClient, 499},
		{"the gateway ends", func(h *house, _ func()) { h.handler.Close() }, expediter.StatusFailed, expediter.ByGateway, 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var slow atomic.Bool
			front := func(_ int, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.Method == http.MethodPost:
						slow.Store(true)
						w.WriteHeader(http.StatusInternalServerError)
					case slow.Load() && r.URL.Path == "/health":
						time.Sleep(200 * time.Millisecond)
						next.ServeHTTP(w, r)
					default:
						next.ServeHTTP(w, r)
					}
				})
			}
			inMemory(t, option{replicas: 3, front: front}, func(t *testing.T, h *house) {
				time.Sleep(time.Second) // the replicas have reported
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				go func() {
					time.Sleep(100 * time.Millisecond)
					tt.end(h, leave)
				}()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/v1/chat/completions", strings.NewReader(chatBody(true, 5, "hi")))
				must(t, err)
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+h.key)
				if resp, err := h.client.Do(r); err == nil {
					resp.Body.Close()
				}
				rec := h.records.wait(t, 1)[0]
				slow.Store(false)
				time.Sleep(300 * time.Millisecond) // until nobody waits for /health
				if rec.Status != tt.status || rec.EndedBy != tt.by || rec.HTTPStatus != tt.http || rec.Attempts != 1 || rec.Charged != 0 {
					t.Errorf("record = %+v, want %s by %s with %d after one attempt, and nothing charged", rec, tt.status, tt.by, tt.http)
				}
			})
		})
	}
}

// TestDepartureIsNoFault: what a replica answers when its client has left is not
// held against it, and the record says who left.
func TestDepartureIsNoFault(t *testing.T) {
	const token = "data: " + contentChunk + "\n\n"
	for _, tt := range []struct {
		name        string
		stream      bool
		status      int
		first, last string
	}{
		{"stream, then an error event", true, 200, token, `data: {"error":{"message":"client disconnected","code":500}}` + "\n\n"},
		{"stream, then an abort", true, 200, token, `data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}` + "\n\n"},
		{"stream, then no JSON", true, 200, token, "data: bye\n\n"},
		{"stream, then [DONE]", true, 200, token, "data: [DONE]\n\n"},
		{"stream, then its end", true, 200, token, ""},
		{"role, then an error event", true, 200, "data: " + roleChunk + "\n\n", `data: {"error":{"message":"client disconnected","code":500}}` + "\n\n"},
		{"role, then its end", true, 200, "data: " + roleChunk + "\n\n", ""},
		{"half an answer, then its end", false, 200, `{"id":"x","choices":[`, ""},
		{"half an answer, then an abort", false, 200, `{"id":"x",`, `"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"abort"}]}`},
		{"nothing, then a 500", false, 500, "", `{"error":{"message":"client disconnected","code":500}}`},
		{"nothing, then a 503", true, 503, "", "no healthy upstream"},
		{"nothing, then a 404", true, 404, "", "{}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &farewell{status: tt.status, first: tt.first, last: tt.last, waiting: make(chan struct{})}
			inMemory(t, option{config: func(c *expediter.Config) {
				f.Transport = c.Pools[0].Transport.(*http.Transport)
				c.Pools[0].Transport = f
			}}, func(t *testing.T, h *house) {
				time.Sleep(time.Second) // the replica has reported
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { <-f.waiting; cancel() }()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/v1/chat/completions", strings.NewReader(chatBody(tt.stream, 5, "hi")))
				must(t, err)
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+h.key)
				if resp, err := h.client.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if rec := h.records.wait(t, 1)[0]; rec.Status != expediter.StatusCancelled || rec.EndedBy != expediter.ByClient {
					t.Errorf("record = %+v, want it cancelled by the client", rec)
				}
				r0 := h.replicas[0].reg
				if n, _ := r0.Failures(); n != 0 {
					t.Errorf("%d failures held against the replica, want none", n)
				}
				if why, out := r0.Ejected(); out {
					t.Errorf("the replica is ejected: %v", why)
				}
			})
		})
	}
}
