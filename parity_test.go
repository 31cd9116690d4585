package expediter_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// asksTokens reports whether a request asks a replica for token ids.
func asksTokens(r *http.Request) bool {
	return r.URL.Path == "/tokenize" || strings.HasSuffix(r.URL.Path, "/render")
}

// agreement returns what the handler says of each replica, by name.
func (h *house) agreement() map[string]bool {
	found := make(map[string]bool)
	for r, same := range h.handler.Parity() {
		found[r.Name()] = same
	}
	return found
}

// served sends one request and returns its record.
func (h *house) served(text string) expediter.Record {
	h.t.Helper()
	n := len(h.records.all())
	if status, body := h.chat(chatBody(false, 3, text)); status != http.StatusOK {
		h.t.Fatalf("status %d, body %s", status, body)
	}
	return h.records.wait(h.t, n+1)[n]
}

// TestParity: a replica with another template is found with the first
// question; while it is there the pool's records are approximate, its prompts
// are still hashed, and one log line says so, without text.
func TestParity(t *testing.T) {
	var odd atomic.Bool
	odd.Store(true)
	o := tokenized(option{replicas: 2})
	other := sync.OnceValue(func() *sim.Server { // made inside the bubble
		c := sim.Config{Model: servedModel}
		o.sim(&c)
		c.Render = func(dst []byte, _, _ json.RawMessage) ([]byte, error) { return append(dst, "<|im_start|>bot"...), nil }
		return sim.NewServer(c)
	})
	o.front = func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i == 1 && odd.Load() && asksTokens(r) {
				other().ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	inMemory(t, o, func(t *testing.T, h *house) {
		defer func() { other().Close() }()
		time.Sleep(2 * time.Second)
		if got := h.agreement(); len(got) != 2 || !got["r0"] || got["r1"] {
			t.Fatalf("agreement = %v, want r0 and not r1", got)
		}
		for i := range 2 {
			if rec := h.served(handbook); !rec.Approximate || i == 1 && (rec.Predicted == 0 || rec.Predicted != rec.Cached) {
				t.Errorf("record = %+v, want an approximate one with a prediction", rec)
			}
		}
		want := `level=WARN msg="replica's token ids differ from the gateway's" pool=small replica=r1 probe=chat position=1`
		if log := h.logs.String(); strings.Count(log, want) != 1 || strings.Count(log, "token ids") != 1 || strings.Contains(log, "im_start") {
			t.Errorf("log = %s, want one line with %s", log, want)
		}
		odd.Store(false)
		h.replicas[1].reg.Restarted()
		time.Sleep(2 * time.Second)
		if got := h.agreement(); !got["r0"] || !got["r1"] {
			t.Errorf("agreement = %v, want both", got)
		}
		if rec := h.served(handbook); rec.Approximate {
			t.Error("record is approximate, want exact after recovery")
		}
		if log := h.logs.String(); strings.Count(log, "token ids") != 2 || !strings.Contains(log, "again") {
			t.Errorf("log = %s, want one more line", log)
		}
	})
}

// TestParityEngineJudges: while a replica counts otherwise, neither the
// gateway's count nor its template turns a request away.
func TestParityEngineJudges(t *testing.T) {
	for _, agrees := range []bool{true, false} {
		o := tokenized(option{config: func(c *expediter.Config) { c.Pools[0].MaxModelLen = 64 }, sim: func(c *sim.Config) {
			if agrees {
				return
			}
			c.Tokenize = func(dst []uint32, text string) []uint32 { return append(dst, make([]uint32, len(text)/50+1)...) }
			c.Render = func(dst []byte, messages, _ json.RawMessage) ([]byte, error) { return append(dst, messages...), nil }
		}})
		inMemory(t, o, func(t *testing.T, h *house) {
			time.Sleep(2 * time.Second)
			for name, body := range map[string]string{
				"too long for our count":   chatBody(false, 3, handbook),
				"refused by our template":  `{"model":"gpt-fast","max_tokens":3,"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`,
				"an unknown role, refused": `{"model":"gpt-fast","max_tokens":3,"messages":[{"role":"critic","content":"a"}]}`,
			} {
				if status, answer := h.chat(body); (status == http.StatusOK) == agrees {
					t.Errorf("%s, replica agrees: %t: status %d, body %s", name, agrees, status, answer)
				}
			}
			for _, rec := range h.records.all() {
				if rec.Status == expediter.StatusOK && !rec.Approximate {
					t.Errorf("record = %+v, want an approximate one", rec)
				}
			}
		})
	}
}

// TestParityNeverDelays: with a replica that hangs when asked for token ids, a
// request takes exactly as long as if nobody asked.
func TestParityNeverDelays(t *testing.T) {
	took := func(t *testing.T, interval time.Duration) (total time.Duration) {
		asked := new(atomic.Int64)
		o := tokenized(option{config: func(c *expediter.Config) { c.Parity = interval }})
		o.front = func(_ int, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asksTokens(r) {
					asked.Add(1)
					hang(next).ServeHTTP(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
		}
		inMemory(t, o, func(t *testing.T, h *house) {
			for range 20 {
				began := time.Now()
				if rec := h.served(handbook); rec.Approximate {
					t.Error("record is approximate, want exact: silence is no difference")
				}
				total += time.Since(began)
				time.Sleep(time.Second)
			}
			if got := h.agreement(); len(got) != 0 {
				t.Errorf("agreement = %v, want nothing known", got)
			}
		})
		if n := asked.Load(); (n > 0) != (interval > 0) {
			t.Errorf("interval %v: asked %d times", interval, n)
		}
		return total
	}
	without, with := took(t, -1), took(t, time.Second)
	if with != without || with == 0 {
		t.Errorf("20 requests took %v, and %v without questions", with, without)
	}
}

// TestParityReload: a reload that changes what is compared begins anew, one
// that does not goes on.
func TestParityReload(t *testing.T) {
	var asked atomic.Int64
	o := tokenized(option{})
	o.front = func(_ int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asksTokens(r) {
				asked.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}
	inMemory(t, o, func(t *testing.T, h *house) {
		round := func(step string, asks bool, replicas int) {
			t.Helper()
			time.Sleep(2 * time.Second)
			if n := asked.Swap(0); (n > 0) != asks || len(h.agreement()) != replicas {
				t.Errorf("%s: asked %d times, want some: %t; agreement %v, want of %d", step, n, asks, h.agreement(), replicas)
			}
		}
		reload := func(change func(*expediter.Config)) {
			t.Helper()
			h.config.Pools = append([]expediter.Pool(nil), h.config.Pools...)
			change(&h.config)
			must(t, h.handler.Reload(h.config))
		}
		round("start", true, 1)
		reload(func(c *expediter.Config) { c.Pools[0].MaxTokens = 5 })
		round("another limit", false, 1)
		again, err := tokenize.Load(demo.Files)
		must(t, err)
		reload(func(c *expediter.Config) { c.Pools[0].Tokenizer = again })
		round("another tokenizer", true, 1)
		reload(func(c *expediter.Config) { c.Pools[0].Tokenizer = nil })
		round("no tokenizer", false, 0)
		reload(func(c *expediter.Config) { c.Pools[0].Tokenizer, c.Parity = again, -1 })
		round("never", false, 0)
		reload(func(c *expediter.Config) { c.Parity = 0 })
		round("back", true, 1)
	})
}
