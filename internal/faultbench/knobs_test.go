package faultbench_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
)

// TestJ2ReportsThatAreNone: where every replica's metrics hang, are garbage
// or stand still, requests are served at once by the gateway's own books, and a
// metric tells.
func TestJ2ReportsThatAreNone(t *testing.T) {
	for name, how := range map[string]faultbench.Report{"J2 stale": faultbench.Stale, "J2 hung": faultbench.Hung, "J2 garbage": faultbench.Garbage} {
		for _, replicas := range []int{1, 3} {
			t.Run(fmt.Sprint(name, ", ", replicas), func(t *testing.T) {
				h := faultbench.Open(t, faultbench.Options{Replicas: replicas})
				h.Eventually("the first reports", func() bool {
					for _, m := range h.Members {
						if m.State() == nil {
							return false
						}
					}
					return true
				})
				for _, r := range h.Replicas {
					r.SetReport(how)
				}
				if how != faultbench.Stale {
					h.Eventually("reports to grow old", func() bool {
						for _, m := range h.Members {
							if time.Since(m.State().At) < 300*time.Millisecond {
								return false
							}
						}
						return true
					})
				}
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						for i := range 10 {
							if a := h.Do(t.Context(), faultbench.Request{Stream: i%2 == 0, MaxTokens: 3}); !a.OK() {
								t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
							}
						}
					})
				}
				wg.Wait()
				h.Check()
				for _, r := range h.Records() {
					if r.Attempts != 1 {
						t.Errorf("record = %+v, want one attempt", r)
					}
				}
				if !strings.Contains(h.Scrape(), "expediter_replica_reported_age_seconds{") {
					t.Error("no metric tells how old reports are")
				}
			})
		}
	}
}

// TestJ6ReportedWorkCounts: what a replica reports of work that others sent
// it counts when one is chosen.
func TestJ6ReportedWorkCounts(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Replicas: 2, Replica: func(i int, r *faultbench.Replica) {
		if i == 0 {
			r.Waiting, r.Usage = 60, 0.9
		}
	}})
	h.Eventually("the first reports", func() bool { return h.Members[0].State() != nil && h.Members[1].State() != nil })
	for range 40 {
		if a := h.Do(t.Context(), faultbench.Request{MaxTokens: 3}); !a.OK() {
			t.Fatalf("%v, status %d: %s", a.Err, a.Status, a.Body)
		}
	}
	count := make(map[string]int)
	for _, g := range h.Ledger.All() {
		count[g.Replica]++
	}
	if count["r1"] < 35 {
		t.Errorf("requests by replica: %v, want nearly all on r1, which is idle", count)
	}
}

// TestJ11Cached: the engine's own figure of cached tokens reaches the record,
// and one above the prompt is not believed.
func TestJ11Cached(t *testing.T) {
	cached := 0
	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		s := faultbench.Speak(g)
		s.Cached = cached
		return s.Script()
	}})
	for i, tc := range []struct{ says, want int }{{0, 0}, {5, 5}, {500, 7}, {-3, 0}} {
		cached = tc.says
		h.Do(t.Context(), faultbench.Request{Stream: i%2 == 0, MaxTokens: 3})
		h.Check()
		if r := h.Records()[i]; r.Cached != tc.want || r.Input != 7 {
			t.Errorf("an engine that says %d: record = %+v, want %d", tc.says, r, tc.want)
		}
	}
}

// TestL3AdaptersStay: with as many slots as adapters in the fleet, each stays
// where it was loaded.
func TestL3AdaptersStay(t *testing.T) {
	const replicas, slots, adapters, requests = 2, 2, 4, 160
	h := faultbench.Open(t, faultbench.Options{
		Replicas: replicas,
		Replica: func(_ int, r *faultbench.Replica) {
			r.Adapters.Slots, r.Adapters.Load = slots, 20*time.Millisecond
		},
		Config: func(c *expediter.Config) {
			for i := range adapters {
				name := fmt.Sprintf("lora-%d", i)
				c.Models = append(c.Models, expediter.Model{Name: name, Pool: "small", Adapter: name})
			}
		},
	})
	h.Eventually("the first reports", func() bool {
		return h.Members[0].State() != nil && h.Members[1].State() != nil && h.Members[0].State().MaxLoRA == slots
	})
	for i := range requests {
		name := fmt.Sprintf("lora-%d", i*7%adapters)
		if a := h.Do(t.Context(), faultbench.Request{Stream: i%2 == 0, MaxTokens: 2, Model: name}); !a.OK() {
			t.Fatalf("%v, status %d: %s", a.Err, a.Status, a.Body)
		}
	}
	loads := 0
	for _, r := range h.Replicas {
		if names := unused(t, r); len(names) > slots {
			t.Errorf("%s holds %v", r.Name, names)
		}
		loads += r.Adapters.Loads()
	}
	if loads < adapters || loads > requests/10 {
		t.Errorf("%d loads for %d requests of %d adapters", loads, requests, adapters)
	}
	t.Logf("%d loads for %d requests of %d adapters", loads, requests, adapters)
}

// TestAdapterSlots: the replica loads what it does not hold, keeps what was
// used last, and makes nobody wait for a slot for ever.
func TestAdapterSlots(t *testing.T) {
	r := bareReplica(t, func(r *faultbench.Replica) { r.Adapters.Slots, r.Adapters.Load = 1, time.Millisecond })
	for i, name := range []string{"a", "a", "b", "acme-8b", "b", "a"} {
		if status := postTo(t, r, name); status != 200 {
			t.Errorf("request %d for %s: status %d", i, name, status)
		}
	}
	if n := r.Adapters.Loads(); n != 3 {
		t.Errorf("%d loads, want 3: a, b, and a again", n)
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if status := postTo(t, r, string(rune('a'+i%3))); status != 200 {
				t.Errorf("status %d", status)
			}
		})
	}
	wg.Wait()
	if names := unused(t, r); len(names) != 1 {
		t.Errorf("holds %v", names)
	}
}

// unused returns the adapters that a replica holds, once no request is on one:
// its peer may have the end of an answer before the replica itself is done.
func unused(t *testing.T, r *faultbench.Replica) []string {
	t.Helper()
	for end := time.Now().Add(soon); ; {
		names, running := r.Adapters.Held()
		if len(running) == 0 {
			return names
		}
		if time.Now().After(end) {
			t.Errorf("%s: adapters %v are in use", r.Name, running)
			return names
		}
		runtime.Gosched()
	}
}

// bareReplica is a replica without a gateway.
func bareReplica(t *testing.T, edit func(*faultbench.Replica)) *faultbench.Replica {
	t.Helper()
	r := &faultbench.Replica{Name: "r", Ledger: new(faultbench.Ledger), Respond: func(g *faultbench.Got) faultbench.Script { return faultbench.Speak(g).Script() }}
	edit(r)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

// postTo sends a replica a request by itself.
func postTo(t *testing.T, r *faultbench.Replica, model string) int {
	t.Helper()
	resp, err := http.Post(r.URL()+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"`+model+`","max_tokens":1,"messages":[]}`))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestMaxHeaders: the replica takes 256 header lines, as the engine's server
// does, and no more.
func TestMaxHeaders(t *testing.T) {
	r := bareReplica(t, func(*faultbench.Replica) {})
	for lines, want := range map[int]int{256: 200, 257: 400} {
		c, err := net.Dial("tcp", r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET /health HTTP/1.1\r\nHost: a\r\n%s\r\n", strings.Repeat("X: y\r\n", lines))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != want {
			t.Errorf("%d header lines: %v, %v; want %d", lines, resp, err, want)
		}
		c.Close()
	}
}

// TestReports: what /metrics say in each of the ways to report.
func TestReports(t *testing.T) {
	r := bareReplica(t, func(r *faultbench.Replica) { r.Waiting, r.Usage = 3, 0.5 })
	page := func() string {
		resp, err := http.Get(r.URL() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const tokens = "vllm:generation_tokens_total{engine=\"0\",model_name=\"acme-8b\"} "
	if p := page(); !strings.Contains(p, tokens+"0\n") || !strings.Contains(p, "} 3\n") || !strings.Contains(p, "} 0.5\n") {
		t.Errorf("page = %s", p)
	}
	r.SetReport(faultbench.Stale)
	postTo(t, r, "acme-8b")
	if p := page(); !strings.Contains(p, tokens+"0\n") {
		t.Errorf("a page that stands still = %s", p)
	}
	r.SetReport(faultbench.Truth)
	if p := page(); !strings.Contains(p, tokens+"1\n") {
		t.Errorf("page = %s", p)
	}
	r.ResetCounters()
	if p := page(); !strings.Contains(p, tokens+"0\n") {
		t.Errorf("after a reset = %s", p)
	}
	r.SetReport(faultbench.Garbage)
	if p := page(); strings.Contains(p, tokens) {
		t.Errorf("garbage = %s", p)
	}
	r.SetReport(faultbench.Hung)
	client := http.Client{Timeout: 50 * time.Millisecond}
	if resp, err := client.Get(r.URL() + "/metrics"); err == nil {
		resp.Body.Close()
		t.Error("a page that hangs was answered")
	}
}
