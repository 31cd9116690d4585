package expediter_test

import (
	"bufio"
	"compress/gzip"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tenant"
)

// TestHeadersToReplica: only named headers reach the replica,
// whatever the client nominates or sends.
func TestHeadersToReplica(t *testing.T) {
	for _, apiKey := range []string{"", "replica-secret"} {
		script := whole(wholeAnswer)
		h := open(t, option{front: script.front, config: func(c *expediter.Config) { c.Pools[0].APIKey = apiKey }})
		resp := h.post(t.Context(), "/v1/chat/completions?api_key=leak", chatBody(false, 5, "hi"),
			"Cookie", "session=1", "api-key", "leak", "X-Api-Key", "leak", "x-goog-api-key", "leak", "Proxy-Authorization", "leak",
			"Idempotency-Key", "1", "X-Idempotency-Key", "1", "Accept-Encoding", "gzip, br", "X-Request-Id", "mine", "X-data-parallel-rank", "3",
			"X-Vllm-Priority", "-5", "Expect", "", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"Connection", "X-Request-Id, Content-Type, Authorization, Traceparent")
		if body := readAll(t, resp); resp.StatusCode != 200 {
			t.Fatalf("status %d: %s", resp.StatusCode, body)
		}
		got := script.requests()[0]
		want := map[string]bool{"Content-Type": true, "Accept": true, "User-Agent": true, "X-Request-Id": true, "Traceparent": true, "Content-Length": true}
		if apiKey != "" {
			want["Authorization"] = true
			if a := got.header.Get("Authorization"); a != "Bearer replica-secret" {
				t.Errorf("Authorization = %q, want the pool's own key", a)
			}
		}
		for name := range got.header {
			if !want[name] {
				t.Errorf("the replica got %s: %q", name, got.header[name])
			}
			delete(want, name)
		}
		for name := range want {
			t.Errorf("the replica did not get %s", name)
		}
		if id := got.header.Get("X-Request-Id"); id != resp.Header.Get("X-Request-Id") || id == "mine" {
			t.Errorf("X-Request-Id: %q upstream, %q to the client", id, resp.Header.Get("X-Request-Id"))
		}
		if strings.Contains(got.path, "leak") {
			t.Errorf("path = %s", got.path)
		}
		h.close()
	}
}

// TestReplicaCompresses: a replica that compresses although nobody asked is at
// fault; its bytes are not passed on as an answer.
func TestReplicaCompresses(t *testing.T) {
	script := &script{answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, wholeAnswer)
		z.Close()
	}}
	h := open(t, option{front: script.front})
	if status, body := h.chat(chatBody(false, 5, "hi")); status != 502 {
		t.Errorf("status %d: %s, want 502", status, body)
	}
}

// TestControlFields: fields that steer the engine are dropped unless the
// tenant may use them.
func TestControlFields(t *testing.T) {
	fields := `"priority":-1,"cache_salt":"x","kv_transfer_params":{"remote_host":"10.0.0.1"},"vllm_xargs":{"a":1},"request_id":"r","data_parallel_rank":1`
	body := `{"model":"gpt-fast",` + fields + `,"temperature":0.5,"my_own_field":[1],"messages":[{"role":"user","content":"hi"}]}`
	script := whole(wholeAnswer)
	h := open(t, option{front: script.front, tenant: func(tn *tenant.Tenant) { tn.AllowFields = []string{"priority"} }})
	if status, b := h.chat(body); status != 200 {
		t.Fatalf("status %d: %s", status, b)
	}
	sent := script.requests()[0].body
	for _, gone := range []string{"cache_salt", "kv_transfer_params", "vllm_xargs", "request_id", "data_parallel_rank"} {
		if strings.Contains(sent, gone) {
			t.Errorf("%s was passed on: %s", gone, sent)
		}
	}
	for _, kept := range []string{`"priority":-1`, `"temperature":0.5`, `"my_own_field":[1]`} {
		if !strings.Contains(sent, kept) {
			t.Errorf("%s was not passed on: %s", kept, sent)
		}
	}
}

// TestPrefixIsolation: an isolated tenant's salt takes the place of the
// client's.
func TestPrefixIsolation(t *testing.T) {
	script := whole(wholeAnswer)
	h := open(t, option{front: script.front, tenant: func(tn *tenant.Tenant) { tn.IsolatePrefix = true }})
	h.chat(`{"model":"gpt-fast","cache_salt":"mine","messages":[{"role":"user","content":"hi"}]}`)
	if sent := script.requests()[0].body; strings.Count(sent, "cache_salt") != 1 || !strings.Contains(sent, `"cache_salt":"tenant:acme"`) {
		t.Errorf("the replica was sent %s, want the tenant's salt", sent)
	}
}

// TestErrorUnder200: an error, or a whole answer, under status 200 is never
// passed on as a stream; the client's own mistake stays a 400.
func TestErrorUnder200(t *testing.T) {
	for _, tc := range []struct {
		body   string
		status int
	}{
		{`{"error":{"message":"max_tokens is too large","type":"BadRequestError","param":"max_tokens","code":400}}`, 400},
		{`{"object":"error","message":"too long","type":"BadRequestError","code":400}`, 400},
		{`{"error":{"message":"engine died","type":"InternalServerError","code":500}}`, 502},
		{wholeAnswer, 502},
	} {
		h := open(t, option{front: whole(tc.body).front})
		resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 5, "hi"))
		checkError(t, resp, readAll(t, resp), tc.status, "", "", "")
		if r := h.records.wait(t, 1)[0]; r.Charged != 0 {
			t.Errorf("record = %+v, want no charge", r)
		}
		h.close()
	}
}

// unwrapOnly, flushOnly and neither are what hosts put around a
// ResponseWriter.
type unwrapOnly struct{ http.ResponseWriter }

func (w unwrapOnly) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type flushOnly struct{ w http.ResponseWriter }

func (w flushOnly) Header() http.Header         { return w.w.Header() }
func (w flushOnly) Write(p []byte) (int, error) { return w.w.Write(p) }
func (w flushOnly) WriteHeader(s int)           { w.w.WriteHeader(s) }
func (w flushOnly) Flush()                      { w.w.(http.Flusher).Flush() }

type neither struct{ w http.ResponseWriter }

func (w neither) Header() http.Header         { return w.w.Header() }
func (w neither) Write(p []byte) (int, error) { return w.w.Write(p) }
func (w neither) WriteHeader(s int)           { w.w.WriteHeader(s) }

// TestUnderMiddleware: events pass a host's writer one by one; where they
// could not, nothing is generated.
func TestUnderMiddleware(t *testing.T) {
	for _, tc := range []struct {
		name    string
		wrap    func(http.ResponseWriter) http.ResponseWriter
		streams bool
	}{
		{"Unwrap only", func(w http.ResponseWriter) http.ResponseWriter { return unwrapOnly{w} }, true},
		{"Flush only", func(w http.ResponseWriter) http.ResponseWriter { return flushOnly{w} }, true},
		{"neither", func(w http.ResponseWriter) http.ResponseWriter { return neither{w} }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			held := make(chan struct{})
			script := &script{answer: func(w http.ResponseWriter, _ *http.Request) {
				sse(w, roleChunk, contentChunk)
				<-held
				sse(w, finishChunk, "[DONE]")
			}}
			h := open(t, option{front: script.front, wrap: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(tc.wrap(w), r) })
			}})
			resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 5, "hi"))
			defer resp.Body.Close()
			if !tc.streams {
				close(held)
				b, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != 500 || len(script.requests()) != 0 || !strings.Contains(h.logs.String(), "cannot stream") {
					t.Errorf("status %d, body %s, %d requests sent on; want a 500, a log line and none", resp.StatusCode, b, len(script.requests()))
				}
				return
			}
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() && !strings.Contains(lines.Text(), `"content":"a"`) {
			}
			close(held) // only now does the replica go on: the event came through by itself
			rest, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Errorf("rest of the stream: %s, %v", rest, err)
			}
		})
	}
}

// TestBrokenUnderRecoverAll: a host's middleware that recovers from every
// panic does not turn a broken stream into a complete one.
func TestBrokenUnderRecoverAll(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, recovers := range []bool{false, true} {
			script := &script{answer: func(w http.ResponseWriter, _ *http.Request) {
				sse(w, roleChunk, contentChunk)
				panic(http.ErrAbortHandler)
			}}
			h := open(t, option{front: script.front})
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if recovers {
					defer func() { recover() }()
				}
				h.handler.ServeHTTP(w, r)
			}))
			server.EnableHTTP2 = proto == "HTTP/2.0"
			server.StartTLS()
			h.client.CloseIdleConnections()
			h.client = server.Client()
			h.client.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS12
			h.url = server.URL
			resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 5, "hi"))
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.Proto != proto {
				t.Errorf("proto = %s, want %s", resp.Proto, proto)
			}
			if err == nil || !strings.Contains(string(b), "upstream_error") {
				t.Errorf("%s, recover-all %t: stream = %s, error %v; want an error event and a broken end", proto, recovers, b, err)
			}
			server.Close()
			h.close()
		}
	}
}

// panicking is a scorer with a mistake in it.
type panicking struct{}

func (panicking) Score([]float64, *router.Request, []*registry.Replica) {
	panic("scorer: index out of range")
}

// TestPanicStaysInRequest: a scorer with a mistake in it costs its request
// only, which is answered, recorded and not charged.
func TestPanicStaysInRequest(t *testing.T) {
	h := open(t, option{config: func(c *expediter.Config) {
		c.Pools[0].Router = router.New(router.Config{Scorers: []router.Scorer{panicking{}}})
	}})
	for range 3 {
		resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 5, "hi"))
		checkError(t, resp, readAll(t, resp), 500, "internal_error", "", "")
	}
	for _, r := range h.records.wait(t, 3) {
		if r.Status != expediter.StatusPanicked || r.Charged != 0 {
			t.Errorf("record = %+v, want panicked and no charge", r)
		}
	}
}

// TestSinkPanics: a sink with a mistake in it harms no answer.
func TestSinkPanics(t *testing.T) {
	h := open(t, option{})
	c := h.config
	c.Usage = sinkFunc(func(*expediter.Record) { panic("sink") })
	must(t, h.handler.Reload(c))
	for _, stream := range []bool{false, true} {
		if status, body := h.chat(chatBody(stream, 5, "hi")); status != 200 {
			t.Errorf("status %d: %s", status, body)
		}
	}
	waitFor(t, "the log line", func() bool { return strings.Count(h.logs.String(), "panic in the usage sink") == 2 })
	h.audit = false
}

type sinkFunc func(*expediter.Record)

func (f sinkFunc) Write(r *expediter.Record) { f(r) }

// TestNameInNameOut: every answer names the model as the client did.
func TestNameInNameOut(t *testing.T) {
	h := open(t, option{
		sim: func(c *sim.Config) { c.Adapters = map[string]string{"legal-v3": "/adapters/legal"} },
		config: func(c *expediter.Config) {
			c.Models = append(c.Models, expediter.Model{Name: "legal", Pool: "small", Adapter: "legal-v3"})
		},
	})
	for _, name := range []string{"gpt-fast", "legal", servedModel} {
		for _, stream := range []bool{false, true} {
			status, body := h.chat(strings.Replace(chatBody(stream, 4, "hi"), "gpt-fast", name, 1))
			n := strings.Count(body, `"model":"`+name+`"`)
			if status != 200 || n != strings.Count(body, `"model":`) || n == 0 {
				t.Errorf("%s, stream %t: status %d, body %s", name, stream, status, body)
			}
		}
	}
}

// TestLargePrompts: the replica gets the exact document.
func TestLargePrompts(t *testing.T) {
	script := whole(wholeAnswer)
	h := open(t, option{front: script.front, sim: func(c *sim.Config) { c.KVTokens = 4 << 20 }})
	for _, size := range []int{32768, 32769, 1_000_000, 8_000_000} {
		n := len(script.requests())
		body := strings.Replace(chatBody(false, 5, strings.Repeat("x", size-200)), "gpt-fast", servedModel, 1)
		body += strings.Repeat(" ", size-len(body))
		var r io.Reader = strings.NewReader(body)
		if size == 32769 {
			r = struct{ io.Reader }{r} // chunked
		}
		req, err := http.NewRequest("POST", h.url+"/v1/chat/completions", r)
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+h.key)
		resp, err := h.client.Do(req)
		must(t, err)
		if b := readAll(t, resp); resp.StatusCode != 200 {
			t.Fatalf("%d bytes: status %d: %.200s", size, resp.StatusCode, b)
		}
		if got := script.requests()[n].body; got != body {
			t.Errorf("%d bytes: the replica got %d other bytes", size, len(got))
		}
	}
}
