package vllm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
	"github.com/expediterhq/expediter/tokenize/demo"
	"github.com/expediterhq/expediter/vllm"
)

// demoModel is the demo tokenizer, loaded once.
var demoModel = sync.OnceValue(func() *tokenize.Model {
	m, err := tokenize.Load(demo.Files)
	if err != nil {
		panic(err)
	}
	return m
})

// double is a simulated replica that tokenizes as the model folder says, with
// something in front of it.
type double struct {
	*sim.Server
	front func(w http.ResponseWriter, r *http.Request, next http.Handler)
	mu    sync.Mutex
	asked map[string]int
}

func newDouble(t *testing.T, change func(*sim.Config)) *double {
	t.Helper()
	c := sim.Config{
		Model: "acme-8b",
		Tokenize: func(dst []uint32, text string) []uint32 {
			ids, err := demoModel().AppendPrompt(dst, text)
			if err != nil {
				t.Error(err)
			}
			return ids
		},
		Render: func(dst []byte, messages, tools json.RawMessage) ([]byte, error) {
			text, _, err := demoModel().AppendText(dst, chat.Input{Messages: messages, Tools: tools})
			return text, err
		},
	}
	if change != nil {
		change(&c)
	}
	e := &double{Server: sim.NewServer(c), asked: map[string]int{}}
	t.Cleanup(e.Close)
	return e
}

func (e *double) count(path string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[path]
}

// doubles answers for replicas by host name.
type doubles map[string]*double

func (es doubles) RoundTrip(r *http.Request) (*http.Response, error) {
	e := es[r.URL.Host]
	e.mu.Lock()
	e.asked[r.URL.Path]++
	front := e.front
	e.mu.Unlock()
	rec := httptest.NewRecorder()
	rec.Code = 0
	if front != nil {
		front(rec, r, e.Server)
	} else {
		e.ServeHTTP(rec, r)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if rec.Code == 0 {
		return nil, errors.New("connection refused")
	}
	return rec.Result(), nil
}

// parityOf returns a Parity over one pool of the doubles, and its log.
func parityOf(t *testing.T, es doubles, change func(*vllm.ParityConfig)) (*vllm.Parity, *registry.Pool, *bytes.Buffer) {
	t.Helper()
	pool, err := registry.NewPool(registry.PoolConfig{Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	for name := range es {
		if _, err := pool.Add(registry.ReplicaConfig{Name: name, URL: "http://" + name}); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	c := vllm.ParityConfig{
		Pool: pool, Model: "acme-8b", Encoder: demoModel(), Transport: es,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	if change != nil {
		change(&c)
	}
	p, err := vllm.NewParity(c)
	if err != nil {
		t.Fatal(err)
	}
	return p, pool, &log
}

// found returns the finding of the replica called name.
func found(p *vllm.Parity, name string) vllm.Finding {
	for r, f := range p.Findings() {
		if r.Name() == name {
			return f
		}
	}
	return vllm.Finding{}
}

func TestParityAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newDouble(t, nil)
		p, _, log := parityOf(t, doubles{"a": e}, nil)
		began := time.Now()
		run(t, p, synctest.Wait, func() {
			if f := found(p, "a"); f.Verdict != vllm.Agrees || f.At != began || p.Differs() {
				t.Errorf("finding = %+v, differs %t, want Agrees at the start", f, p.Differs())
			}
			if r, k := e.count("/v1/chat/completions/render"), e.count("/tokenize"); r != 5 || k != 7 {
				t.Errorf("asked /render %d and /tokenize %d times, want 5 and 7", r, k)
			}
			time.Sleep(8 * time.Minute)
			if k := e.count("/tokenize"); k != 7 {
				t.Errorf("after 8 min: asked /tokenize %d times, want 7", k)
			}
			time.Sleep(4 * time.Minute)
			if k := e.count("/tokenize"); k != 14 {
				t.Errorf("after 12 min: asked /tokenize %d times, want 14", k)
			}
		})
		if log.Len() != 0 {
			t.Errorf("log = %s, want none", log)
		}
	})
}

func TestParityDiffers(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*sim.Config)
		probe    string
		position int
	}{
		{"another tokenizer", func(c *sim.Config) { c.Tokenize = nil }, "unicode", 0},
		{"a token at the end of prompts", func(c *sim.Config) {
			plain := c.Tokenize
			c.Tokenize = func(dst []uint32, text string) []uint32 { return append(plain(dst, text), 7) }
		}, "unicode", 209}, // as many as the text has
		{"another template", func(c *sim.Config) {
			plain := c.Render
			c.Render = func(dst []byte, messages, tools json.RawMessage) ([]byte, error) {
				return plain(append(dst, "<|im_start|>system\nBe nice.<|im_end|>\n"...), messages, tools)
			}
		}, "chat", 1},
		{"tools left out", func(c *sim.Config) {
			plain := c.Render
			c.Render = func(dst []byte, messages, _ json.RawMessage) ([]byte, error) { return plain(dst, messages, nil) }
		}, "chat-tools", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, log := parityOf(t, doubles{"good": newDouble(t, nil), "bad": newDouble(t, c.change)}, nil)
				run(t, p, synctest.Wait, func() {
					f := found(p, "bad")
					if f.Verdict != vllm.Differs || f.Probe != c.probe || f.Position != c.position || !p.Differs() {
						t.Errorf("finding = %+v, want Differs in %q at %d", f, c.probe, c.position)
					}
					if f := found(p, "good"); f.Verdict != vllm.Agrees {
						t.Errorf("of the other: %+v, want Agrees", f)
					}
				}, wait(time.Hour))
				want := fmt.Sprintf(`pool=p replica=bad probe=%s position=%d`, c.probe, c.position)
				if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
					t.Errorf("log = %s, want one line with %s", got, want)
				}
			})
		})
	}
}

// answer makes a front that answers a path by itself.
func answer(path string, status int, body string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, path) {
			next.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func TestParityUnknown(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }
	refuse := func(http.ResponseWriter, *http.Request, http.Handler) {}
	for _, c := range []struct {
		name      string
		front     func(http.ResponseWriter, *http.Request, http.Handler)
		low, high int // questions in a minute: absent routes are not asked for again, and one silence ends a round
	}{
		{"no route", answer("", 404, `{"detail":"Not Found"}`), 2, 2},
		{"no method", answer("", 405, `{"detail":"Method Not Allowed"}`), 2, 2},
		{"model unknown", answer("", 404, `{"error":{"message":"no such model","type":"NotFoundError","param":"model","code":404}}`), 40, 100},
		{"key refused", answer("", 401, `{"error":"Unauthorized"}`), 40, 100},
		{"broken", answer("", 500, `oops`), 40, 100},
		{"garbage", answer("", 200, `{"tokens":"abc"}`), 40, 100},
		{"negative ids", answer("", 200, `{"tokens":[-1],"token_ids":[1.5]}`), 40, 100},
		{"endless", answer("", 200, `{"tokens":[`+strings.Repeat("1,", 1<<20)+`1]}`), 40, 100},
		{"redirect", answer("", 307, ``), 40, 100},
		{"hangs", hang, 3, 5},
		{"is not there", refuse, 3, 5},
		{"half of it", answer("/render", 500, ``), 40, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "half of it" {
				half := c.front
				c.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if body, _ := io.ReadAll(r.Body); !bytes.Contains(body, []byte("digits")) && bytes.Contains(body, []byte("messages")) {
						half(w, r, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
					} else {
						r.Body = io.NopCloser(bytes.NewReader(body))
						next.ServeHTTP(w, r)
					}
				}
			}
			synctest.Test(t, func(t *testing.T) {
				e := newDouble(t, nil)
				e.front = c.front
				p, _, log := parityOf(t, doubles{"a": e}, nil)
				run(t, p, wait(time.Minute), func() {
					if f := found(p, "a"); f != (vllm.Finding{}) || p.Differs() {
						t.Errorf("finding = %+v, want Unknown", f)
					}
					if n := e.count("/tokenize") + e.count("/v1/chat/completions/render"); n < c.low || n > c.high {
						t.Errorf("asked %d questions in a minute, want %d to %d", n, c.low, c.high)
					}
				})
				if n := strings.Count(log.String(), "cannot be compared"); n != 1 || strings.Contains(log.String(), "differ from") {
					t.Errorf("log = %s, want one line", log)
				}
			})
		})
	}
}

// TestParityOldEngines: doubles without the render route, whose /tokenize may
// not know tools, and those whose first render route had another shape.
func TestParityOldEngines(t *testing.T) {
	type front = func(http.ResponseWriter, *http.Request, http.Handler)
	noTools := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		var body map[string]json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body)
		delete(body, "tools")
		data, _ := json.Marshal(body)
		r.Body = io.NopCloser(bytes.NewReader(data))
		answer("/render", 404, `{"detail":"Not Found"}`)(w, r, next)
	}
	pair := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		var a struct {
			IDs []uint32 `json:"token_ids"`
		}
		if json.Unmarshal(rec.Body.Bytes(), &a) != nil || a.IDs == nil {
			_, _ = rec.Body.WriteTo(w)
			return
		}
		ids, _ := json.Marshal(a.IDs)
		fmt.Fprintf(w, `[[{"role":"user"}],[{"prompt_token_ids":%s,"prompt":"..."}]]`, ids)
	}
	for name, c := range map[string]struct {
		front  front
		render int
	}{
		"no render":                      {answer("/render", 404, `{"detail":"Not Found"}`), 1},
		"no render, tools unknown":       {noTools, 1},
		"render refuses, tokenize knows": {answer("/render", 400, `{"error":{"message":"no tool parser","type":"BadRequestError","code":400}}`), 5},
		"render of another shape":        {pair, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newDouble(t, nil)
				e.front = c.front
				p, _, _ := parityOf(t, doubles{"a": e}, nil)
				run(t, p, synctest.Wait, func() {
					if f := found(p, "a"); f.Verdict != vllm.Agrees {
						t.Errorf("finding = %+v, want Agrees", f)
					}
					if n := e.count("/v1/chat/completions/render"); n != c.render {
						t.Errorf("asked /render %d times, want %d", n, c.render)
					}
				})
			})
		})
	}
}

// TestParityRestarts: a difference holds over a restart until the replica
// agrees, an agreement does not.
func TestParityRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newDouble(t, nil)
		other := newDouble(t, func(c *sim.Config) { c.Tokenize = nil })
		p, pool, log := parityOf(t, doubles{"a": e}, nil)
		r := pool.Replicas()[0]
		set := func(f func(http.ResponseWriter, *http.Request, http.Handler)) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.front = f
		}
		expect := func(step string, v vllm.Verdict, differs bool) {
			t.Helper()
			if f := found(p, "a"); f.Verdict != v || p.Differs() != differs {
				t.Errorf("%s: finding %+v, differs %t, want verdict %d and %t", step, f, p.Differs(), v, differs)
			}
		}
		run(t, p, wait(time.Second), func() {
			expect("start", vllm.Agrees, false)
			set(func(http.ResponseWriter, *http.Request, http.Handler) {})
			r.Restarted()
			time.Sleep(2 * time.Second)
			expect("restarted, silent", vllm.Unknown, false)
			set(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { other.ServeHTTP(w, r) })
			time.Sleep(20 * time.Second)
			expect("another tokenizer", vllm.Differs, true)
			set(func(http.ResponseWriter, *http.Request, http.Handler) {})
			r.Restarted()
			time.Sleep(2 * time.Second)
			expect("restarted, silent again", vllm.Differs, true)
			set(nil)
			time.Sleep(20 * time.Second)
			expect("the same tokenizer", vllm.Agrees, false)
		})
		if got := log.String(); strings.Count(got, "differ from") != 1 || strings.Count(got, "again") != 1 {
			t.Errorf("log = %s, want one difference and its end", got)
		}
	})
}

// TestParityFollowsMembership: a replica that differs and leaves takes its
// finding with it, also while it is being asked.
func TestParityFollowsMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := doubles{"good": newDouble(t, nil), "bad": newDouble(t, func(c *sim.Config) { c.Tokenize = nil }), "slow": newDouble(t, nil)}
		es["slow"].front = func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }
		p, pool, _ := parityOf(t, es, nil)
		run(t, p, wait(time.Second), func() {
			if !p.Differs() {
				t.Error("Differs = false, want true")
			}
			for _, r := range pool.Replicas() {
				if r.Name() != "good" {
					pool.Remove(r)
				}
			}
			time.Sleep(2 * time.Second)
			if fs := p.Findings(); len(fs) != 1 || p.Differs() {
				t.Errorf("findings = %v, differs %t, want those of one replica and false", fs, p.Differs())
			}
		})
	})
}

// TestParityAskedOnceMore: what differs once and not the next moment is a
// template that wrote another date.
func TestParityAskedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newDouble(t, nil)
		first := true
		e.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/render") && first {
				first = false
				io.WriteString(w, `{"token_ids":[1,2,3]}`)
				return
			}
			next.ServeHTTP(w, r)
		}
		p, _, _ := parityOf(t, doubles{"a": e}, nil)
		run(t, p, synctest.Wait, func() {
			if f := found(p, "a"); f.Verdict != vllm.Agrees {
				t.Errorf("finding = %+v, want Agrees", f)
			}
		})
	})
}

// picky is an Encoder whose template refuses tools.
type picky struct{ *tokenize.Model }

func (p picky) AppendChat(dst []uint32, in chat.Input) ([]uint32, error) {
	if len(in.Tools) > 0 {
		return dst, &chat.Error{Kind: "TemplateError", Message: "no tools here"}
	}
	return p.Model.AppendChat(dst, in)
}

// untold is an Encoder without a template.
type untold struct{ *tokenize.Model }

func (untold) AppendChat(dst []uint32, _ chat.Input) ([]uint32, error) {
	return dst, tokenize.ErrNoTemplate
}

func TestParityRefusals(t *testing.T) {
	refuse := func(c *sim.Config) {
		plain := c.Render
		c.Render = func(dst []byte, messages, tools json.RawMessage) ([]byte, error) {
			if tools != nil {
				return nil, errors.New("no tools here")
			}
			return plain(dst, messages, tools)
		}
	}
	fail := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"tools"`)) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	}
	for _, c := range []struct {
		name    string
		encoder vllm.Encoder
		engine  func(*sim.Config)
		front   func(http.ResponseWriter, *http.Request, http.Handler)
		want    vllm.Verdict
	}{
		{"both refuse", picky{demoModel()}, refuse, nil, vllm.Agrees},
		{"we refuse, they fail", picky{demoModel()}, nil, fail, vllm.Agrees},
		{"we refuse", picky{demoModel()}, nil, nil, vllm.Differs},
		{"they refuse", demoModel(), refuse, nil, vllm.Unknown},
		{"they fail", demoModel(), nil, fail, vllm.Unknown},
		{"we have no template", untold{demoModel()}, nil, nil, vllm.Agrees},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newDouble(t, c.engine)
				e.front = c.front
				p, _, _ := parityOf(t, doubles{"a": e}, func(pc *vllm.ParityConfig) { pc.Encoder = c.encoder })
				run(t, p, synctest.Wait, func() {
					f := found(p, "a")
					if f.Verdict != c.want || f.Verdict == vllm.Differs && (f.Probe != "chat-tools" || f.Position != -1) {
						t.Errorf("finding = %+v, want verdict %d", f, c.want)
					}
				})
			})
		})
	}
}

// TestParityHungReplicas: those that hang are asked a few at a time and hold
// up the others only for the time of one answer.
func TestParityHungReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := doubles{"good": newDouble(t, nil)}
		for i := range 8 {
			e := newDouble(t, nil)
			e.front = func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }
			es[fmt.Sprintf("hung%d", i)] = e
		}
		p, _, _ := parityOf(t, es, func(c *vllm.ParityConfig) { c.Concurrency = 2 })
		run(t, p, wait(13*time.Second), func() {
			if f := found(p, "good"); f.Verdict != vllm.Agrees {
				t.Errorf("finding = %+v, want Agrees", f)
			}
		})
	})
}

func TestNewParityChecks(t *testing.T) {
	if _, err := vllm.NewParity(vllm.ParityConfig{}); err == nil {
		t.Error("NewParity without a pool: no error")
	}
}
