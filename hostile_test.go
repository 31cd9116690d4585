package expediter_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// dial opens a bare connection to the gateway.
func (h *house) dial() *net.TCPConn {
	h.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	must(h.t, err)
	h.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second)) // a hang fails the test
	return c.(*net.TCPConn)
}

// head is the head of a chat request that announces a body of n bytes.
func (h *house) head(key string, n int) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", key, n)
}

// answerOf reads one response from c, and reports whether c is closed after it.
func answerOf(t *testing.T, c net.Conn) (status int, body string, closed bool) {
	t.Helper()
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, err.Error(), true
	}
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	_, err = r.ReadByte()
	return resp.StatusCode, string(b), err == io.EOF
}

// TestBodyNeverSent: what can be refused without the body is refused at once,
// and a body that does not come ends the connection.
func TestBodyNeverSent(t *testing.T) {
	h := open(t, option{config: func(c *expediter.Config) { c.Timeouts.Body = 300 * time.Millisecond }})
	for _, tc := range []struct {
		name, request string
		status        int
	}{
		{"no key", h.head("nonsense", 100), 401},
		{"unknown path", "POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 404},
		{"health with a body", "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 200},
		{"good key", h.head(h.key, 100), 408},
		{"too large", h.head(h.key, 1<<30), 413},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := h.dial()
			io.WriteString(c, tc.request)
			if status, body, closed := answerOf(t, c); status != tc.status || !closed {
				t.Errorf("status %d, closed %t: %s; want %d and closed", status, closed, body, tc.status)
			}
		})
	}
}

// TestAnswerIsNotLost: a client that sends all of a large body before it reads gets
// the refusal, though it has asked for the connection to be closed, as have those
// that speak HTTP/1.0.
func TestAnswerIsNotLost(t *testing.T) {
	h := open(t, option{config: func(c *expediter.Config) { c.Limits.Body = 10_000 }})
	for _, tc := range []struct {
		name, key, version, header string
		status                     int
	}{
		{"too large", h.key, "1.1", "Connection: close\r\n", 413},
		{"no key", "nonsense", "1.1", "Connection: close\r\n", 401},
		{"HTTP/1.0", h.key, "1.0", "", 413},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 5 {
				c := h.dial()
				const size = 8 << 20 // more than the buffers between the two hold
				head := strings.Replace(h.head(tc.key, size), "1.1\r\n", tc.version+"\r\n"+tc.header, 1)
				if _, err := io.WriteString(c, head+strings.Repeat(" ", size)); err != nil {
					t.Fatal(err)
				}
				if status, body, closed := answerOf(t, c); status != tc.status || !closed {
					t.Fatalf("status %d, closed %t: %s; want %d and closed", status, closed, body, tc.status)
				}
			}
		})
	}
}

// TestHalfClose: a client that closes its side for writing gets no empty
// success.
func TestHalfClose(t *testing.T) {
	h := open(t, option{front: func(_ int, next http.Handler) http.Handler { return hang(next) }})
	for _, stream := range []bool{false, true} {
		body := chatBody(stream, 5, "hi")
		c := h.dial()
		io.WriteString(c, h.head(h.key, len(body))+body)
		waitFor(t, "the dispatch", func() bool { return h.replicas[0].reg.Load().Requests > 0 })
		must(t, c.CloseWrite())
		if status, got, _ := answerOf(t, c); status == 200 {
			t.Errorf("stream %t: status 200, body %q; want none, or an error", stream, got)
		}
		waitFor(t, "the release", func() bool { return h.replicas[0].reg.Load().Requests == 0 })
	}
}

// TestSwitchingProtocols: a replica that answers 101 holds nothing.
func TestSwitchingProtocols(t *testing.T) {
	script := &script{answer: func(w http.ResponseWriter, _ *http.Request) {
		c, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		buf.Flush()
		io.Copy(io.Discard, c) // until the other side closes
		c.Close()
	}}
	h := open(t, option{front: script.front})
	if status, body := h.chat(chatBody(false, 5, "hi")); status != 502 {
		t.Errorf("status %d: %s, want 502", status, body)
	}
}

// broken is a ResponseWriter with a mistake in it.
type broken struct{ http.ResponseWriter }

func (broken) Write([]byte) (int, error) { panic("broken writer") }
func (broken) Flush()                    { panic("broken writer") }

// TestWriterPanics: nothing stays behind.
func TestWriterPanics(t *testing.T) {
	h := open(t, option{})
	for _, stream := range []bool{false, true} {
		r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(chatBody(stream, 5, "hi")))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+h.key)
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("panic = %v, want http.ErrAbortHandler", p)
				}
			}()
			h.handler.ServeHTTP(broken{httptest.NewRecorder()}, r)
		}()
	}
	if n := h.handler.InFlight(); n != 0 {
		t.Errorf("%d requests in flight, want 0", n)
	}
}

// TestPromptFarTooLong: a prompt beyond the context is given up early, with
// the code that says so.
func TestPromptFarTooLong(t *testing.T) {
	model, err := tokenize.Load(demo.Files)
	must(t, err)
	h := open(t, option{config: func(c *expediter.Config) {
		c.Pools[0].Tokenizer, c.Pools[0].MaxModelLen, c.Parity = model, 4096, -1
	}})
	resp := h.post(t.Context(), "/v1/chat/completions", chatBody(false, 5, strings.Repeat("a b", 2_000_000)))
	checkError(t, resp, readAll(t, resp), 400, "context_length_exceeded", "messages", "4096")
	resp = h.post(t.Context(), "/v1/completions", `{"model":"gpt-fast","prompt":"`+strings.Repeat("a b", 2_000_000)+`"}`)
	checkError(t, resp, readAll(t, resp), 400, "context_length_exceeded", "prompt", "4096")
}

// TestMissingAdapter: a replica that lacks an adapter is not at fault: it
// stays in rotation, and another is tried.
func TestMissingAdapter(t *testing.T) {
	h := open(t, option{replicas: 2, config: func(c *expediter.Config) {
		c.Models = append(c.Models, expediter.Model{Name: "legal", Pool: "small", Adapter: "legal-v3"})
	}})
	for range 10 {
		status, body := h.chat(strings.Replace(chatBody(false, 5, "hi"), "gpt-fast", "legal", 1))
		if status != 502 || !strings.Contains(body, "does not serve this model") {
			t.Errorf("status %d: %s", status, body)
		}
	}
	for _, r := range h.replicas {
		if why, out := r.reg.Ejected(); out {
			t.Errorf("%s is ejected: %v", r.reg.Name(), why)
		}
	}
}

// TestReplicaThatLacksTheModel: it is asked again from time to time, and not by
// each request; once it serves the model it takes part.
func TestReplicaThatLacksTheModel(t *testing.T) {
	var lacking atomic.Bool
	lacking.Store(true)
	var asked atomic.Int32
	front := func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i != 0 || r.Method != http.MethodPost {
				next.ServeHTTP(w, r)
				return
			}
			asked.Add(1)
			if !lacking.Load() {
				next.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"message":"The model does not exist.","type":"NotFoundError","param":"model","code":404}}`)
		})
	}
	inMemory(t, option{replicas: 3, front: front}, func(t *testing.T, h *house) {
		time.Sleep(2 * time.Second)
		ask := func(n int) (on0 int32) {
			t.Helper()
			before := asked.Load()
			for i := range n {
				if status, body := h.chat(chatBody(i%2 == 0, 5, fmt.Sprint("hi ", i))); status != http.StatusOK {
					t.Fatalf("status %d, body %s", status, body)
				}
			}
			return asked.Load() - before
		}
		for range 3 {
			if n := ask(30); n != 1 {
				t.Errorf("%d of 30 requests went to the replica that lacks the model, want 1", n)
			}
			time.Sleep(11 * time.Second)
		}
		lacking.Store(false)
		if n := ask(30); n < 3 {
			t.Errorf("%d of 30 requests went to the replica once it served the model", n)
		}
	})
}

// TestTenantShareOfBodies: one tenant cannot take all the memory for bodies,
// and announced lengths take none.
func TestTenantShareOfBodies(t *testing.T) {
	h := open(t, option{config: func(c *expediter.Config) { c.Limits.Body, c.Limits.Bodies = 1<<20, 1<<20 }})
	for range 8 {
		c := h.dial()
		io.WriteString(c, h.head(h.key, 1<<20)) // and nothing more
	}
	waitFor(t, "the requests", func() bool { return h.handler.InFlight() == 8 })
	if status, body := h.chat(chatBody(false, 5, "hi")); status != 200 {
		t.Errorf("beside announced bodies: status %d: %s", status, body)
	}
}
