package vllm_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/vllm"
)

// fleet answers for replicas by host name.
type fleet struct {
	mu      sync.Mutex
	hosts   map[string]*host
	waiting int // answers under way
	most    int
}

type host struct {
	started, steps, running int
	hangMetrics, hangHealth bool
	healthStatus            int
	models                  string // answer to /v1/models, unless empty
	delay                   time.Duration
	asked                   map[string]int
}

func (f *fleet) host(name string) *host {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	if h == nil {
		h = &host{started: 1000, steps: 50, healthStatus: 200, asked: map[string]int{}}
		f.hosts[name] = h
	}
	return h
}

// change alters a host under the lock.
func (f *fleet) change(name string, alter func(*host)) {
	h := f.host(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	alter(h)
}

func (f *fleet) asked(name, path string) int {
	h := f.host(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	return h.asked[path]
}

func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	h := f.host(r.URL.Host)
	f.mu.Lock()
	h.asked[r.URL.Path]++
	f.waiting++
	f.most = max(f.most, f.waiting)
	hang := r.URL.Path == "/metrics" && h.hangMetrics || r.URL.Path == "/health" && h.hangHealth
	delay := h.delay
	status, body := h.answer(r.URL.Path)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.waiting--
		f.mu.Unlock()
	}()
	if hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(delay):
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func (h *host) answer(path string) (int, string) {
	switch path {
	case "/metrics":
		return 200, fmt.Sprintf("process_start_time_seconds %d\nvllm:num_requests_running{engine=\"0\"} %d\nvllm:iteration_tokens_total_count{engine=\"0\"} %d\n"+
			"vllm:cache_config_info{block_size=\"16\",engine=\"0\",kv_cache_size_tokens=\"4096\"} 1\n", h.started, h.running, h.steps)
	case "/health":
		return h.healthStatus, ""
	case "/v1/models":
		if h.models != "" {
			return 200, h.models
		}
		return 200, `{"data":[{"id":"m","max_model_len":2048}]}`
	}
	return 404, ""
}

func watch(t *testing.T, names ...string) (*fleet, *registry.Pool, *vllm.Watcher) {
	t.Helper()
	pool, err := registry.NewPool(registry.PoolConfig{Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if _, err := pool.Add(registry.ReplicaConfig{Name: n, URL: "http://" + n}); err != nil {
			t.Fatal(err)
		}
	}
	f := &fleet{hosts: map[string]*host{}}
	return f, pool, &vllm.Watcher{Pool: pool, Transport: f}
}

// run runs w for a while, calling steps in between, and checks that
// Run returns at once and leaves nothing behind.
func run(t *testing.T, w interface{ Run(context.Context) }, steps ...func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		w.Run(ctx)
		close(done)
	}()
	for _, step := range steps {
		step()
	}
	ended := time.Now()
	cancel()
	<-done
	if d := time.Since(ended); d != 0 {
		t.Errorf("Run returned %v after its context ended", d)
	}
}

func wait(d time.Duration) func() { return func() { time.Sleep(d) } }

func TestWatcherReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pool, w := watch(t, "a", "b")
		f.change("a", func(h *host) { h.running = 3 })
		run(t, w, wait(10*time.Second), func() {
			a, b := pool.Replicas()[0], pool.Replicas()[1]
			s := a.State()
			if s == nil || s.Running != 3 || s.KVTokens != 4096 || s.BlockSize != 16 || !slices.Equal(s.Models, []string{"m"}) || s.MaxModelLen != 2048 || time.Since(s.At) > 600*time.Millisecond {
				t.Errorf("state of a = %+v", s)
			}
			if b.State() == nil || b.State().Running != 0 {
				t.Errorf("state of b = %+v", b.State())
			}
			for _, c := range []struct {
				path      string
				low, high int
			}{{"/metrics", 18, 23}, {"/health", 9, 12}, {"/v1/models", 1, 1}} {
				if n := f.asked("a", c.path); n < c.low || n > c.high {
					t.Errorf("%s was asked %d times in 10 s, want %d to %d", c.path, n, c.low, c.high)
				}
			}
		})
	})
}

// TestTokensStandForHealth: a replica is not asked how it is while tokens say so,
// and is again once they stop.
func TestTokensStandForHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pool, w := watch(t, "a", "b")
		for _, n := range []string{"a", "b"} {
			f.change(n, func(h *host) { h.healthStatus = 503 })
		}
		a, b := pool.Replicas()[0], pool.Replicas()[1]
		a.Progress(time.Now())
		flow := func() {
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				a.Progress(time.Now())
			}
			if n, other := f.asked("a", "/health"), f.asked("b", "/health"); n != 0 || other < 9 {
				t.Errorf("/health was asked %d and %d times in 10 s, want 0 and 9 or more", n, other)
			}
			if _, out := a.Ejected(); out {
				t.Error("ejected while its tokens flow")
			}
			if _, out := b.Ejected(); !out {
				t.Error("b, which has no tokens, was not ejected")
			}
		}
		run(t, w, flow, wait(10*time.Second), func() {
			if n := f.asked("a", "/health"); n < 8 {
				t.Errorf("/health was asked %d times in 10 s without tokens, want 8 or more", n)
			}
		})
	})
}

func TestWatcherSeesRestarts(t *testing.T) {
	for name, alter := range map[string]func(*host){
		"new process, same counters": func(h *host) { h.started = 2000 },
		"counters went back":         func(h *host) { h.steps = 3 },
		"both":                       func(h *host) { h.started, h.steps = 2000, 3 },
	} {
		synctest.Test(t, func(t *testing.T) {
			f, pool, w := watch(t, "a")
			r := pool.Replicas()[0]
			before := r.Generation()
			run(t, w, wait(3*time.Second), func() {
				if g := r.Generation(); g != before {
					t.Errorf("%s: generation %d at first, want %d", name, g, before)
				}
				f.change("a", alter)
			}, wait(3*time.Second), func() {
				if g := r.Generation(); g != before+1 {
					t.Errorf("%s: generation %d, want %d", name, g, before+1)
				}
				if n := f.asked("a", "/v1/models"); n != 2 {
					t.Errorf("%s: the models were asked %d times, want once for each life", name, n)
				}
				if s := r.State(); s == nil || s.MaxModelLen != 2048 {
					t.Errorf("%s: state = %+v", name, s)
				}
			})
		})
	}
}

func TestJ1HungMetricsGrowStaleAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pool, w := watch(t, "a", "b")
		var log bytes.Buffer
		w.Logger = slog.New(slog.NewTextHandler(&log, nil))
		a, b := pool.Replicas()[0], pool.Replicas()[1]
		run(t, w, wait(3*time.Second), func() { f.change("a", func(h *host) { h.hangMetrics = true }) }, wait(20*time.Second), func() {
			now := time.Now()
			if a.Fresh(now) || !b.Fresh(now) || !a.Routable(now) {
				t.Errorf("fresh %v and %v, routable %v, want false, true, true", a.Fresh(now), b.Fresh(now), a.Routable(now))
			}
			if n := f.asked("b", "/metrics"); n < 35 {
				t.Errorf("b was asked %d times: held up by a", n)
			}
			f.change("a", func(h *host) { h.hangMetrics = false })
		}, wait(4*time.Second), func() {
			if !a.Fresh(time.Now()) {
				t.Error("a is not fresh again")
			}
		})
		if got := strings.Count(log.String(), "does not report"); got != 1 || strings.Count(log.String(), "reports again") != 1 || strings.Contains(log.String(), "http://") {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

func TestJ3DeadReplicaLeavesByProbe(t *testing.T) {
	for name, alter := range map[string]func(*host){
		"hangs":     func(h *host) { h.hangHealth, h.hangMetrics = true, true },
		"says 503":  func(h *host) { h.healthStatus, h.hangMetrics = 503, true },
		"redirects": func(h *host) { h.healthStatus, h.hangMetrics = 307, true },
	} {
		synctest.Test(t, func(t *testing.T) {
			f, pool, w := watch(t, "a", "b", "c")
			a := pool.Replicas()[0]
			run(t, w, wait(3*time.Second), func() {
				f.change("a", alter)
				time.Sleep(500 * time.Millisecond)
				if !a.Routable(time.Now()) {
					t.Errorf("%s: ejected at the first miss", name)
				}
			}, wait(20*time.Second), func() {
				if a.Routable(time.Now()) {
					t.Errorf("%s: still routable after 20 s", name)
				}
				if !pool.Replicas()[1].Routable(time.Now()) {
					t.Errorf("%s: another replica was ejected", name)
				}
			})
		})
	}
}

func TestWatcherFollowsMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pool, w := watch(t, "a")
		a := pool.Replicas()[0]
		asked := 0
		run(t, w, wait(2*time.Second), func() {
			if _, err := pool.Add(registry.ReplicaConfig{Name: "b", URL: "http://b"}); err != nil {
				t.Fatal(err)
			}
			pool.Remove(a)
		}, wait(2*time.Second), func() { asked = f.asked("a", "/metrics") }, wait(5*time.Second), func() {
			if n := f.asked("a", "/metrics"); n != asked {
				t.Errorf("a was asked %d times after it left", n-asked)
			}
			if pool.Replicas()[0].State() == nil {
				t.Error("b was not asked")
			}
		})
	})
}

func TestWatcherConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 40 {
			names = append(names, fmt.Sprint("r", i))
		}
		f, _, w := watch(t, names...)
		w.Concurrency = 5
		for _, n := range names {
			f.change(n, func(h *host) { h.delay = 50 * time.Millisecond })
		}
		run(t, w, wait(10*time.Second))
		if f.most > 5 {
			t.Errorf("%d answers at a time, want at most 5", f.most)
		}
		for _, n := range names {
			if f.asked(n, "/metrics") < 5 {
				t.Errorf("%s was asked %d times", n, f.asked(n, "/metrics"))
			}
		}
	})
}

// TestHungReplicasDoNotHoldUpOthers: half of a fleet falls silent.
func TestHungReplicasDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 80 {
			names = append(names, fmt.Sprint("r", i))
		}
		f, pool, w := watch(t, names...)
		w.Concurrency = 16
		for _, n := range names {
			f.change(n, func(h *host) { h.delay = 10 * time.Millisecond })
		}
		run(t, w, wait(5*time.Second), func() {
			for _, n := range names[:40] {
				f.change(n, func(h *host) { h.hangMetrics, h.hangHealth = true, true })
			}
		}, wait(20*time.Second), func() {
			for _, r := range pool.Replicas()[40:] {
				if age := time.Since(r.State().At); age > time.Second {
					t.Errorf("the report of %s is %v old", r.Name(), age)
				}
			}
		})
		if f.most > 16 {
			t.Errorf("%d answers at a time, want at most 16", f.most)
		}
	})
}

// TestJ3FrozenEngineLeaves: an engine whose server still answers, and whose
// pages still show nothing in flight, is out of rotation within 10 s of the first
// request; not if it has made no step yet, since that may take long.
func TestJ3FrozenEngineLeaves(t *testing.T) {
	for _, steps := range []int{0, 50} {
		synctest.Test(t, func(t *testing.T) {
			f, pool, w := watch(t, "a", "b")
			f.change("a", func(h *host) { h.steps = steps })
			a, b := pool.Replicas()[0], pool.Replicas()[1]
			run(t, w, wait(3*time.Second), func() {
				l, ok := a.Lease(registry.Claim{})
				if !ok {
					t.Fatal("no lease")
				}
				defer l.Release()
				time.Sleep(10 * time.Second)
				if why, out := a.Ejected(); out != (steps > 0) || out && why != registry.ByFreeze || !b.Routable(time.Now()) {
					t.Errorf("at step %d: ejected %v for %q, the other routable %v, want %v, frozen, true", steps, out, why, b.Routable(time.Now()), steps > 0)
				}
			})
		})
	}
}

// TestWatcherLogsHealth: one line for each change, also when another Watcher
// takes over.
func TestWatcherLogsHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pool, w := watch(t, "a", "b")
		var log bytes.Buffer
		w.Logger = slog.New(slog.NewTextHandler(&log, nil))
		a := pool.Replicas()[0]
		out := func() { f.change("a", func(h *host) { h.healthStatus = 503 }) }
		in := func() {
			f.change("a", func(h *host) { h.healthStatus = 200 })
			time.Sleep(3 * time.Minute)
			l, ok := a.Lease(registry.Claim{})
			if !ok {
				t.Fatal("no trial")
			}
			l.Succeeded(time.Now())
			l.Release()
		}
		run(t, w, wait(6*time.Second), out, wait(30*time.Second))
		run(t, w, wait(6*time.Second), in)
		var got []string
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, " ")
			got = append(got, strings.TrimSpace(line))
		}
		want := []string{
			`level=WARN msg="replica ejected" pool=p replica=a reason=probe`,
			`level=INFO msg="replica back" pool=p replica=a reason=probe`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("log = %q, want %q", got, want)
		}
		for range 3 {
			a.Failed(time.Now())
		}
		if n := strings.Count(log.String(), "ejected"); n != 1 {
			t.Errorf("%d ejections in the log after Run returned, want 1", n)
		}
	})
}

// TestWatcherExpectsNames: one line when a name is missing, one when it is
// there, none for a replica that serves all from the start.
func TestWatcherExpectsNames(t *testing.T) {
	const base, adapter = `{"id":"m","max_model_len":2048}`, `{"id":"sql","parent":"m"}`
	synctest.Test(t, func(t *testing.T) {
		f, pool, w := watch(t, "a", "b", "c")
		var log bytes.Buffer
		w.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.Expect = []string{"m", "sql"}
		serve := func(name, models string) {
			f.change(name, func(h *host) { h.models = `{"data":[` + models + `]}` })
		}
		serve("a", base+","+adapter)
		serve("b", base)
		serve("c", `{"id":"other\u001b[2J"}`)
		run(t, w, wait(5*time.Minute), func() { serve("b", base+","+adapter) }, wait(5*time.Minute), func() {
			if n := f.asked("a", "/v1/models"); n != 1 {
				t.Errorf("a was asked %d times what it serves, want 1", n)
			}
			if s := pool.Replicas()[1].State(); !slices.Equal(s.Models, []string{"m", "sql"}) || s.MaxModelLen != 2048 {
				t.Errorf("state of b = %+v, want both names and 2048 tokens", s)
			}
			f.change("b", func(h *host) { h.started = 2000 })
			serve("b", base)
		}, wait(time.Minute))
		var got []string
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, " ")
			got = append(got, strings.TrimSpace(line))
		}
		slices.Sort(got)
		want := []string{
			`level=INFO msg="replica serves all models" pool=p replica=b`,
			`level=WARN msg="replica does not serve a model" pool=p replica=b missing=sql serves=m`,
			`level=WARN msg="replica does not serve a model" pool=p replica=b missing=sql serves=m`,
			`level=WARN msg="replica does not serve a model" pool=p replica=c missing="m, sql" serves=other[2J`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("log = %q, want %q", got, want)
		}
	})
}
