package faultbench_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
)

// unwraps hides everything but the way to the writer below.
type unwraps struct{ http.ResponseWriter }

func (u unwraps) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// closed hides everything.
type closed struct{ w http.ResponseWriter }

func (c closed) Header() http.Header         { return c.w.Header() }
func (c closed) Write(p []byte) (int, error) { return c.w.Write(p) }
func (c closed) WriteHeader(s int)           { c.w.WriteHeader(s) }

// TestB2UnderMiddleware: a wrapper that can flush, or leads to one that can,
// streams; one that cannot is refused before anything is generated.
func TestB2UnderMiddleware(t *testing.T) {
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"B2 Unwrap only": func(w http.ResponseWriter) http.ResponseWriter { return unwraps{w} },
		"B2 Flush only":  func(w http.ResponseWriter) http.ResponseWriter { return bare{w} },
		"B2 neither":     func(w http.ResponseWriter) http.ResponseWriter { return closed{w} },
	} {
		t.Run(name, func(t *testing.T) {
			h := faultbench.Open(t, faultbench.Options{Wrap: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrap(w), r) })
			}})
			a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 5})
			if name == "B2 neither" {
				if a.Status != 500 || a.Error == "" || h.Ledger.Len() != 0 || !strings.Contains(h.Logs.String(), "cannot stream") {
					t.Errorf("status %d, %d requests at the replica: %s", a.Status, h.Ledger.Len(), a.Body)
				}
				return
			}
			if !a.OK() || a.Deltas != 5 {
				t.Errorf("%v: %s", a.Err, a.Body)
			}
		})
	}
}

// TestB4NoTotalTimeout: only the wait for the first token and silence are
// timed, not the stream.
func TestB4NoTotalTimeout(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{
		Config: func(c *expediter.Config) {
			const limit = 2 * time.Second // the stream takes longer, and no pause in it nearly as long
			c.Timeouts = expediter.Timeouts{FirstToken: limit, Silence: limit, Answer: limit, Write: limit}
		},
		Respond: func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			s.Pace = 50 * time.Millisecond
			return s.Script()
		},
	})
	if a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 50}); !a.OK() || a.Deltas != 50 {
		t.Errorf("%v, %d deltas: %s", a.Err, a.Deltas, a.Error)
	}
}

// TestB11Silence: a stream that falls silent ends with an error event, and
// the replica is let go.
func TestB11Silence(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{
		Config: func(c *expediter.Config) { c.Timeouts.Silence = 300 * time.Millisecond },
		Respond: func(g *faultbench.Got) faultbench.Script {
			sc := faultbench.Stream(faultbench.Speak(g).Deltas(3)...)
			sc.End = faultbench.Stall
			return sc
		},
	})
	a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 25})
	if a.Err == nil || a.Error == "" || a.Done || a.Deltas != 3 {
		t.Errorf("%v, %d deltas, error %q", a.Err, a.Deltas, a.Error)
	}
	h.Check()
	if r := h.Records()[0]; r.Status != expediter.StatusTruncated || r.Charged != 10 || h.Ledger.All()[0].Gone.IsZero() {
		t.Errorf("record = %+v, ledger %+v", r, h.Ledger.All()[0].Gone)
	}
}

// TestC3AbortUnderRecoverAll: a broken stream stays broken under middleware
// that recovers from every panic, on both versions of HTTP.
func TestC3AbortUnderRecoverAll(t *testing.T) {
	for _, version := range []int{1, 2} {
		for _, recovers := range []bool{false, true} {
			t.Run(fmt.Sprintf("C3 HTTP/%d, recover-all %t", version, recovers), func(t *testing.T) {
				h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
					sc := faultbench.Stream(faultbench.Speak(g).Deltas(3)...)
					sc.End = faultbench.RST
					return sc
				}})
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if recovers {
						defer func() { _ = recover() }()
					}
					h.ServeCounted(w, r)
				}))
				s.EnableHTTP2 = version == 2
				s.StartTLS()
				defer s.Close()
				h.URL, h.Client = s.URL, s.Client()
				a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 5})
				if a.Err == nil || a.Error == "" || a.Deltas != 3 {
					t.Errorf("%v, error %q, %d deltas", a.Err, a.Error, a.Deltas)
				}
			})
		}
	}
}

// TestC5ErrorEvent: the engine's own error is relayed once, as it is, and
// counts once against the replica.
func TestC5ErrorEvent(t *testing.T) {
	const event = `{"error":{"message":"EngineCore died","type":"InternalServerError","param":null,"code":500}}`
	h := faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
		return faultbench.Stream(append(faultbench.Speak(g).Deltas(5), faultbench.Piece{Data: []byte("data: " + event + "\n\n")}, faultbench.Done())...)
	}})
	a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 50})
	if a.Err == nil || strings.Count(a.Body, event) != 1 || a.Done || a.Deltas != 5 {
		t.Errorf("%v: %s", a.Err, a.Body)
	}
	h.Check()
	r := h.Records()[0]
	if r.Status != expediter.StatusTruncated || r.Attempts != 1 || r.Charged != 12 || h.Ledger.Len() != 1 {
		t.Errorf("record = %+v", r)
	}
	if n := failures(h); n != 1 {
		t.Errorf("%d failures counted against replicas, want 1", n)
	}
}

// TestC8ErrorUnder200: an error in the body of a 200 is an error.
func TestC8ErrorUnder200(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		status     int
	}{
		{"C8 nested 400", `{"error":{"message":"max_tokens is too large","type":"BadRequestError","param":"max_tokens","code":400}}`, 400},
		{"C8 flat 400", `{"object":"error","message":"too long","type":"BadRequestError","code":400}`, 400},
		{"C8 500", `{"error":{"message":"engine died","type":"InternalServerError","code":500}}`, 502},
		{"C8 without code", `{"error":{"message":"engine died"}}`, 502},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := faultbench.Open(t, faultbench.Options{Respond: func(*faultbench.Got) faultbench.Script { return faultbench.JSON(200, []byte(tc.body), 0) }})
			for _, stream := range []bool{true, false} {
				a := h.Do(t.Context(), faultbench.Request{Stream: stream, MaxTokens: 50})
				if a.Status != tc.status || a.Error == "" || a.Header.Get("Content-Type") != "application/json" {
					t.Errorf("stream %t: status %d, %v: %s", stream, a.Status, a.Header, a.Body)
				}
				h.Members[0].Succeeded(time.Now()) // the next one is a case of its own
			}
			h.Check()
			for _, r := range h.Records() {
				if r.Charged != 0 {
					t.Errorf("record = %+v, want no charge", r)
				}
			}
		})
	}
}

// TestD1D2D9Usage: the engine is always asked for running usage, the client
// sees what it asked for, and the record holds the last figure.
func TestD1D2D9Usage(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{})
	for _, tc := range []struct {
		name, options string
		last, running bool
	}{
		{"D1 not asked for", ``, false, false},
		{"D2 empty options", `,"stream_options":{}`, false, false},
		{"D2 refused", `,"stream_options":{"include_usage":false}`, false, false},
		{"D2 asked for", `,"stream_options":{"include_usage":true}`, true, false},
		{"D9 with every event", `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := h.Ledger.Len()
			r := faultbench.Request{Stream: true, MaxTokens: 9, Fields: tc.options, Model: faultbench.Model}
			a := h.Do(t.Context(), r)
			var lasts, running int
			for i, e := range a.Events {
				var c struct {
					Choices []json.RawMessage
					Usage   json.RawMessage
				}
				if e == "[DONE]" {
					continue
				}
				if err := json.Unmarshal([]byte(e), &c); err != nil {
					t.Fatal(err)
				}
				switch {
				case len(c.Choices) == 0:
					lasts++
					if i != len(a.Events)-2 {
						t.Errorf("the usage is event %d of %d", i+1, len(a.Events))
					}
				case c.Usage != nil:
					running++
				}
			}
			if !a.OK() || lasts == 1 != tc.last || running > 0 != tc.running || lasts > 1 {
				t.Errorf("%d chunks of usage alone, %d with running usage: %s", lasts, running, a.Body)
			}
			if tc.last {
				passesUnchanged(t, h.Ledger.All()[n], a, tc.running)
			}
			if ask := h.Ledger.All()[n].Ask; !ask.StreamOptions.IncludeUsage || !ask.StreamOptions.Continuous {
				t.Errorf("the replica was asked for %+v", ask.StreamOptions)
			}
			h.Check()
			if r := h.Records()[n]; r.Output != 9 || r.Input != 7 || r.Charged != 16 || r.Estimated {
				t.Errorf("record = %+v, want 7 and 9 tokens", r)
			}
		})
	}
}

// passesUnchanged checks that a client that asked for usage got it as the
// replica sent it, and with running usage the whole stream.
func passesUnchanged(t *testing.T, got faultbench.Got, a faultbench.Answer, running bool) {
	t.Helper()
	s := faultbench.Speak(&got)
	s.Ask.StreamOptions.Continuous = running
	if want := string(s.Last().Data) + "data: [DONE]\n\n"; !strings.HasSuffix(a.Body, want) {
		t.Errorf("the stream ends with %q, want what the replica sent: %q", a.Body[max(0, len(a.Body)-len(want)):], want)
	}
	var sent strings.Builder
	for _, p := range s.Body() {
		sent.Write(p.Data)
	}
	if running && a.Body != sent.String() {
		t.Errorf("the client got\n%s\nwant what the replica sent\n%s", a.Body, sent.String())
	}
}

// TestD7StreamOptionsWithoutStream: nothing is put into a request that is not
// streamed.
func TestD7StreamOptionsWithoutStream(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		if strings.Contains(string(g.Body), "stream_options") {
			return faultbench.JSON(400, []byte(`{"error":{"message":"Stream options can only be defined when stream=True.","type":"BadRequestError","param":"stream_options","code":400}}`), 0)
		}
		return faultbench.Speak(g).Script()
	}})
	for name, stream := range map[string]string{"D7 false": `"stream":false`, "D7 null": `"stream":null`, "D7 absent": `"seed":1`} {
		for _, options := range []string{``, `,"stream_options":{"include_usage":true}`} {
			r := faultbench.Request{MaxTokens: 5, Fields: options}
			body, _ := r.Body()
			a := h.Send(t.Context(), "/v1/chat/completions", strings.NewReader(strings.Replace(body, `"stream":false`, stream, 1)), nil, nil)
			if want := map[bool]int{true: 200, false: 400}[options == ""]; a.Status != want {
				t.Errorf("%s, options %q: status %d, want %d: %s", name, options, a.Status, want, a.Body)
			}
		}
	}
	h.Check()
	for _, r := range h.Records() {
		if r.Status != expediter.StatusOK && r.Charged != 0 {
			t.Errorf("record = %+v", r)
		}
	}
}

// TestD8NoUsage: what the gateway counts itself is marked, in the record and
// in a metric.
func TestD8NoUsage(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		s := faultbench.Speak(g)
		s.Ask.StreamOptions.IncludeUsage, s.Ask.StreamOptions.Continuous = false, false
		return s.Script()
	}})
	if a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 120}); !a.OK() {
		t.Errorf("%v: %s", a.Err, a.Body)
	}
	h.Check()
	if r := h.Records()[0]; !r.Estimated || r.Output != 120 || r.Input == 0 {
		t.Errorf("record = %+v", r)
	}
	found := false
	for line := range strings.Lines(h.Scrape()) {
		found = found || strings.Contains(line, "estimated") && !strings.HasPrefix(line, "#") && !strings.HasSuffix(line, " 0\n")
	}
	if !found {
		t.Error("no metric counts estimates")
	}
}

// TestF1NoRetryAfterFirstToken: five deltas, and nobody else is asked.
func TestF1NoRetryAfterFirstToken(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
		sc := faultbench.Stream(faultbench.Speak(g).Deltas(5)...)
		sc.End = faultbench.RST
		return sc
	}})
	a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 50})
	if a.Err == nil || a.Error == "" || a.Deltas != 5 || h.Ledger.Len() != 1 {
		t.Errorf("%v, error %q, %d deltas, %d executions", a.Err, a.Error, a.Deltas, h.Ledger.Len())
	}
	h.Check()
	if r := h.Records()[0]; r.Charged != 12 || r.Attempts != 1 {
		t.Errorf("record = %+v", r)
	}
}
