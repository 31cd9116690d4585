package expediter_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
)

// narrow has room for one request of full at a time.
var narrow = option{sim: func(c *sim.Config) { c.KVTokens = 4096; c.MaxModelLen = 4096; c.Speed = 1 }}

// full is a request that fills the KV cache of a narrow replica, and has nothing
// in common with those of other words.
func full(stream bool, word string) string {
	return chatBody(stream, 100, strings.Repeat(word+" ", 10000/(len(word)+1)))
}

// scrapes is a front that counts how often the metrics of replica 0 are read.
func scrapes(n *atomic.Int64) func(int, http.Handler) http.Handler {
	return func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i == 0 && r.URL.Path == "/metrics" {
				n.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// secondPool puts a pool of that name with a replica of its own into the
// house's registry, and takes the first out.
func (h *house) secondPool(o option, name string) {
	h.t.Helper()
	first := h.pool
	defer func() { h.pool = first }()
	var err error
	h.pool, err = registry.NewPool(registry.PoolConfig{Name: name})
	must(h.t, err)
	h.addReplica(o, 1)
	h.config.Registry, err = registry.NewStatic(h.pool)
	must(h.t, err)
	h.config.Pools = []expediter.Pool{h.config.Pools[0]}
	h.config.Pools[0].Name = name
	h.config.Models = []expediter.Model{{Name: "gpt-fast", Pool: name}}
}

// TestPoolTakenOut: requests in line when a reload takes their pool out, or
// gives it another line, are served as they would have been, and nothing of
// the pool goes on after the last of them.
func TestPoolTakenOut(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(h *house, o option)
	}{
		{"the model has another pool", func(h *house, o option) { h.secondPool(o, "other") }},
		{"the registry has another pool by that name", func(h *house, o option) { h.secondPool(o, "small") }},
		{"the pool has another line", func(h *house, _ option) {
			c, err := admission.NewController(admission.Config{})
			must(h.t, err)
			h.config.Pools[0].Admitter = c
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var read atomic.Int64
			o := narrow
			o.front = scrapes(&read)
			inMemory(t, o, func(t *testing.T, h *house) {
				time.Sleep(time.Second) // the capacity is known
				var answers sync.WaitGroup
				for _, word := range []string{"one", "two", "three"} { // one runs, two wait
					answers.Go(func() {
						if status, body := h.chat(full(false, word)); status != 200 {
							t.Errorf("status %d: %s", status, body)
						}
					})
				}
				time.Sleep(100 * time.Millisecond)
				if n := h.handler.Lines()["small"].Waiting; n != 2 {
					t.Fatalf("%d requests in line, want 2", n)
				}
				tt.change(h, o)
				must(t, h.handler.Reload(h.config))
				answers.Wait()
				for i, r := range h.records.wait(t, 3) {
					if r.Replica != "r0" || r.Status != expediter.StatusOK || i > 0 && r.QueueWait < 100*time.Millisecond {
						t.Errorf("record %d = %+v, want a success on r0 after the wait", i, r)
					}
				}
				if status, body := h.chat(full(false, "four")); status != 200 {
					t.Errorf("after the reload: status %d: %s", status, body)
				}
				want := h.replicas[len(h.replicas)-1].reg.Name()
				if got := h.records.wait(t, 4)[3].Replica; got != want {
					t.Errorf("the next request went to %s, want %s", got, want)
				}
				synctest.Wait()
				before := read.Load()
				time.Sleep(10 * time.Second)
				if got := read.Load() != before; got != (want == "r0") {
					t.Errorf("the metrics of r0 are still read: %t, want %t", got, want == "r0")
				}
			})
		})
	}
}

// TestEndOfPoolTakenOut: Drain and Close reach requests in line for a pool that
// was taken out.
func TestEndOfPoolTakenOut(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(h *house)
	}{
		{"drain", func(h *house) { must(h.t, h.handler.Drain(h.t.Context())) }},
		{"close", func(h *house) { must(h.t, h.handler.Close()) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inMemory(t, narrow, func(t *testing.T, h *house) {
				time.Sleep(time.Second)
				running := h.post(t.Context(), "/v1/chat/completions", full(true, "one"))
				waiting := make(chan string, 1)
				go func() {
					_, body := h.chat(full(false, "two"))
					waiting <- body
				}()
				time.Sleep(100 * time.Millisecond)
				h.secondPool(narrow, "other")
				must(t, h.handler.Reload(h.config))
				began := time.Now()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					tt.end(h)
				}()
				if body := <-waiting; !strings.Contains(body, "shutting_down") {
					t.Errorf("the answer to who waits is %s, want shutting_down", body)
				}
				if d := time.Since(began); d != 0 {
					t.Errorf("who waits was answered after %v, want at once", d)
				}
				running.Body.Close()
				<-ended
			})
		})
	}
}

// TestPoolsTakenOutUnderLoad: reloads that change the pool of a model time and
// again cost nobody an answer.
func TestPoolsTakenOutUnderLoad(t *testing.T) {
	h := open(t, option{replicas: 1})
	first := h.config
	h.secondPool(option{}, "other")
	second := h.config
	first.Models = first.Models[:1]
	must(t, h.handler.Reload(first))
	var stop atomic.Bool
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for n := 0; !stop.Load(); n++ {
				resp := h.post(context.Background(), "/v1/chat/completions", chatBody(n%2 == 0, 3, "hi"))
				if body := readAll(t, resp); resp.StatusCode != 200 {
					t.Errorf("status %d: %s", resp.StatusCode, body)
				}
			}
		})
	}
	const each = 50 // requests on each pool, at least
	limit := time.Now().Add(20 * time.Second)
	for least := 0; least < each && time.Now().Before(limit); {
		for range 20 {
			must(t, h.handler.Reload(second))
			must(t, h.handler.Reload(first))
		}
		served := make(map[string]int)
		for _, r := range h.records.all() {
			served[r.Pool]++
		}
		least = min(served["small"], served["other"])
	}
	stop.Store(true)
	clients.Wait()
	if !time.Now().Before(limit) {
		t.Error("the reloads let no requests through on one of the pools")
	}
}

// TestPoolPutBack: a pool that is put back while a request of its earlier life
// runs is the same one, and there is one of all that belongs to it.
func TestPoolPutBack(t *testing.T) {
	var read atomic.Int64
	o := narrow
	o.front = scrapes(&read)
	inMemory(t, o, func(t *testing.T, h *house) {
		time.Sleep(time.Second) // the capacity is known
		first := h.config
		running := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 900, strings.Repeat("one ", 2500)))
		if _, err := running.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		answer := make(chan int, 1)
		go func() {
			status, _ := h.chat(full(false, "two"))
			answer <- status
		}()
		time.Sleep(100 * time.Millisecond)
		blocks := h.handler.Prefixes()["small"].Blocks
		h.secondPool(o, "other")
		second := h.config
		must(t, h.handler.Reload(second))
		must(t, h.handler.Reload(first))
		if n := h.handler.Lines()["small"].Waiting; n != 1 {
			t.Errorf("%d requests wait in its line, want 1", n)
		}
		if got := h.handler.Prefixes()["small"].Blocks; got != blocks || blocks == 0 {
			t.Errorf("its prefix map holds %d blocks, want %d", got, blocks)
		}
		reads := func(when string, least, most int64) {
			t.Helper()
			synctest.Wait()
			before := read.Load()
			time.Sleep(5 * time.Second)
			if n := read.Load() - before; n < least || n > most {
				t.Errorf("%s: metrics read %d times in 5 s, want %d to %d", when, n, least, most)
			}
		}
		const least, most = 8, 12 // every 500 ms, a tenth more or less
		go func() { _, _ = io.Copy(io.Discard, running.Body) }()
		reads("put back", least, most)
		if n := h.handler.InFlight(); n != 2 {
			t.Errorf("%d requests under way, want 2", n)
		}
		running.Body.Close()
		if status := <-answer; status != 200 {
			t.Errorf("who waited gets status %d", status)
		}
		reads("alone", least, most)
		must(t, h.handler.Reload(second))
		reads("taken out again", 0, 0)
		must(t, h.handler.Reload(first))
		reads("put back without a request", least, most)
	})
}

// TestPoolPutBackUnderLoad: whether its earlier life ends before it is put back or
// after, it is watched once.
func TestPoolPutBackUnderLoad(t *testing.T) {
	var read atomic.Int64
	o := option{front: scrapes(&read)}
	inMemory(t, o, func(t *testing.T, h *house) {
		first := h.config
		h.secondPool(o, "other")
		second := h.config
		var stop atomic.Bool
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				for !stop.Load() {
					if status, body := h.chat(chatBody(false, 1+i, "hi")); status != 200 {
						t.Errorf("status %d: %s", status, body)
					}
				}
			})
		}
		for range 60 {
			must(t, h.handler.Reload(second))
			time.Sleep(7 * time.Millisecond)
			must(t, h.handler.Reload(first))
			time.Sleep(5 * time.Millisecond)
		}
		stop.Store(true)
		clients.Wait()
		before := read.Load()
		time.Sleep(10 * time.Second)
		if n := read.Load() - before; n < 17 || n > 23 {
			t.Errorf("metrics read %d times in 10 s, want about 20", n)
		}
	})
}

// TestScrapingTurnedOff: a replica that was out by its probes when they ended is
// tried after its pause; while other probes follow it is not.
func TestScrapingTurnedOff(t *testing.T) {
	for _, tt := range []struct {
		name   string
		scrape time.Duration
		tried  bool
	}{{"off", -1, true}, {"less often", time.Second, false}} {
		t.Run(tt.name, func(t *testing.T) {
			var silent atomic.Bool
			front := func(i int, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if i == 0 && silent.Load() {
						<-r.Context().Done()
						return
					}
					next.ServeHTTP(w, r)
				})
			}
			inMemory(t, option{replicas: 2, front: front, config: firstFirst}, func(t *testing.T, h *house) {
				r := h.replicas[0].reg
				time.Sleep(10 * time.Second)
				silent.Store(true)
				time.Sleep(20 * time.Second)
				if why, out := r.Ejected(); !out || why != registry.ByProbe {
					t.Fatalf("ejected %t by %q, want by %q", out, why, registry.ByProbe)
				}
				ask := func() {
					t.Helper()
					if status, body := h.chat(chatBody(false, 3, "hi")); status != 200 {
						t.Errorf("status %d: %s", status, body)
					}
				}
				h.config.Scrape = tt.scrape
				must(t, h.handler.Reload(h.config))
				synctest.Wait()
				if r.Routable(time.Now()) {
					t.Error("routable within its pause")
				}
				time.Sleep(time.Minute) // its pause is over
				if got := r.Routable(time.Now()); got != tt.tried {
					t.Errorf("after its pause: routable %t, want %t", got, tt.tried)
				}
				if !tt.tried {
					h.config.Scrape = 2 * tt.scrape
					must(t, h.handler.Reload(h.config))
					if synctest.Wait(); r.Routable(time.Now()) {
						t.Error("routable between two watchers")
					}
				}
				silent.Store(false)
				time.Sleep(10 * time.Second) // those who still watch see it
				ask()
				if why, out := r.Ejected(); out {
					t.Errorf("still ejected by %q after a request", why)
				}
			})
		})
	}
}

// idleAfter is a transport that takes its time with metrics, whoever waits, and
// then keeps the connection.
type idleAfter struct {
	http.RoundTripper
	takes time.Duration
	idle  atomic.Bool
}

func (i *idleAfter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/metrics" {
		time.Sleep(i.takes)
		defer i.idle.Store(true)
	}
	return i.RoundTripper.RoundTrip(r)
}

func (i *idleAfter) CloseIdleConnections() { i.idle.Store(false) }

// TestNoIdleConnectionIsLeft: a transport that a reload takes out of use, or its
// pool, keeps no connection of an answer that came after it.
func TestNoIdleConnectionIsLeft(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(h *house, before http.RoundTripper)
		want   bool // a connection is kept
	}{
		{"another transport", func(h *house, before http.RoundTripper) { h.config.Pools[0].Transport = before }, false},
		{"another pool", func(h *house, before http.RoundTripper) {
			h.secondPool(option{}, "other")
			h.config.Pools[0].Transport = before
		}, false},
		{"no metrics", func(h *house, _ http.RoundTripper) { h.config.Scrape = -1 }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inMemory(t, option{}, func(t *testing.T, h *house) {
				before := h.config.Pools[0].Transport
				slow := &idleAfter{RoundTripper: before, takes: 1500 * time.Millisecond}
				change := func(f func()) {
					h.config.Pools = []expediter.Pool{h.config.Pools[0]}
					f()
					must(t, h.handler.Reload(h.config))
				}
				change(func() { h.config.Pools[0].Transport = slow })
				time.Sleep(time.Second) // the metrics are being read
				if slow.idle.Load() {
					t.Fatal("the metrics were read too early for this test")
				}
				change(func() { tt.change(h, before) })
				time.Sleep(10 * time.Second)
				if got := slow.idle.Load(); got != tt.want {
					t.Errorf("a connection is kept: %t, want %t", got, tt.want)
				}
			})
		})
	}
}
