package expediter_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
)

const startTime = "\nprocess_start_time_seconds "

// crashing is a front for replicas that lose the connection of each request
// with "poison" in it, with all others as long as budget lasts, and come back at
// once, as another process if restart is set.
func crashing(restart bool, budget int64) func(int, http.Handler) http.Handler {
	left := new(atomic.Int64)
	left.Store(budget)
	return func(_ int, next http.Handler) http.Handler {
		starts := new(atomic.Int64)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, r)
				w.WriteHeader(rec.Code)
				page := strings.Replace(rec.Body.String(), startTime, startTime+fmt.Sprint(starts.Load()), 1)
				_, _ = io.WriteString(w, page)
				return
			}
			b, _ := io.ReadAll(r.Body)
			if strings.Contains(string(b), "poison") && left.Add(-1) >= 0 {
				time.Sleep(200 * time.Millisecond) // not the race of a kept connection
				if restart {
					starts.Add(1)
				}
				panic(http.ErrAbortHandler)
			}
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			next.ServeHTTP(w, r)
		})
	}
}

// TestPoison: a request that took two replicas down is not given a third.
func TestPoison(t *testing.T) {
	inMemory(t, option{replicas: 8, front: crashing(true, 100)}, func(t *testing.T, h *house) {
		time.Sleep(3 * time.Second) // all have reported
		for i := range 3 {
			status, body := h.chat(chatBody(true, 5, "poison"))
			if status != 502 || !strings.Contains(body, "request_crashes_engine") {
				t.Errorf("try %d: status %d, body %s", i, status, body)
			}
		}
		attempts := 0
		for _, r := range h.records.wait(t, 3) {
			attempts += r.Attempts
			if r.Charged != 0 {
				t.Errorf("charged %d for a request nobody served", r.Charged)
			}
		}
		if attempts != 2 {
			t.Errorf("%d replicas got the request, want 2", attempts)
		}
		if status, body := h.chat(chatBody(true, 5, "harmless")); status != 200 {
			t.Errorf("another request: status %d, body %s", status, body)
		}
	})
}

// TestLossesByChance: a request whose connections were lost, but whose replicas
// live on, is no poison: it is tried a third time.
func TestLossesByChance(t *testing.T) {
	inMemory(t, option{replicas: 8, front: crashing(false, 2)}, func(t *testing.T, h *house) {
		time.Sleep(3 * time.Second)
		began := time.Now()
		if status, body := h.chat(chatBody(true, 5, "poison")); status != 200 {
			t.Errorf("status %d, body %s", status, body)
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("took %v: the verdict is due within two reports", d)
		}
		if r := h.records.wait(t, 1)[0]; r.Attempts != 3 {
			t.Errorf("%d attempts, want 3", r.Attempts)
		}
	})
}

// TestSameBodyLossesByChance: a request that two clients send over and over is
// no poison either, while its replicas report that they live on.
func TestSameBodyLossesByChance(t *testing.T) {
	for _, clients := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			front := func(_ int, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						panic(http.ErrAbortHandler)
					}
					next.ServeHTTP(w, r)
				})
			}
			config := func(c *expediter.Config) { c.Scrape, c.Retry.Burst = 200*time.Millisecond, 100_000 }
			inMemory(t, option{replicas: 6, front: front, config: config}, func(t *testing.T, h *house) {
				time.Sleep(3 * time.Second)
				end := time.Now().Add(4 * time.Second)
				var wg sync.WaitGroup
				for i := range clients {
					wg.Go(func() {
						time.Sleep(time.Duration(i) * 70 * time.Millisecond) // between reports
						for time.Now().Before(end) {
							if status, body := h.chat(chatBody(true, 5, "unlucky")); strings.Contains(body, "request_crashes_engine") {
								t.Errorf("status %d, body %s, although no replica went down", status, body)
								return
							}
							time.Sleep(10 * time.Millisecond)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// TestLossesOfOneReplica: several losses of one replica, of which no report
// tells, are those of one.
func TestLossesOfOneReplica(t *testing.T) {
	var answer atomic.Bool
	crash := crashing(false, 2)
	front := func(i int, next http.Handler) http.Handler {
		next = crash(i, next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && !answer.Load() {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}
	answer.Store(true)
	inMemory(t, option{replicas: 1, front: front}, func(t *testing.T, h *house) {
		time.Sleep(3 * time.Second)
		answer.Store(false) // no verdict from now on
		for i := range 2 {
			if status, body := h.chat(chatBody(true, 5, "poison")); status != 502 || strings.Contains(body, "request_crashes_engine") {
				t.Errorf("try %d: status %d, body %s", i, status, body)
			}
		}
		if status, body := h.chat(chatBody(true, 5, "poison")); status != 200 {
			t.Errorf("after the losses: status %d, body %s", status, body)
		}
	})
}

// TestLossesWithoutVerdict: replicas that do not report any more are not known to
// live on, and the request is refused after a while.
func TestLossesWithoutVerdict(t *testing.T) {
	var silent atomic.Bool
	crash := crashing(false, 100)
	front := func(i int, next http.Handler) http.Handler {
		next = crash(i, next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && silent.Load() {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}
	inMemory(t, option{replicas: 8, front: front}, func(t *testing.T, h *house) {
		time.Sleep(3 * time.Second)
		silent.Store(true)
		status, body := h.chat(chatBody(true, 5, "poison"))
		if status != 502 || !strings.Contains(body, "request_crashes_engine") {
			t.Errorf("status %d, body %s", status, body)
		}
		if r := h.records.wait(t, 1)[0]; r.Attempts != 2 {
			t.Errorf("%d attempts, want 2", r.Attempts)
		}
	})
}

// hollow are replicas whose engines a poisonous request ends while the servers
// before them live on: they answer everything with status from then on, and
// questions for their health with health and answer. Unless mute they go on
// reporting.
type hollow struct {
	status, health int
	answer         string
	mute           bool
}

func (b hollow) front(_ int, next http.Handler) http.Handler {
	failed := new(atomic.Bool)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			if failed.Load() && (b.mute || r.URL.Path == "/health") {
				if strings.HasPrefix(b.answer, "{") {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(b.health)
				_, _ = io.WriteString(w, b.answer)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if failed.Load() || strings.Contains(string(body), "poison") {
			failed.Store(true)
			w.WriteHeader(b.status)
			_, _ = io.WriteString(w, `{"error":{"message":"EngineCore encountered an issue.","type":"InternalServerError"}}`)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, r)
	})
}

// TestEnginesLostBehindTheirServers: a 5xx counts as a lost replica if the engine
// is gone, and as any other failure if not.
func TestEnginesLostBehindTheirServers(t *testing.T) {
	for _, tt := range []struct {
		name     string
		replicas hollow
		attempts int
		status   int
		code     string
	}{
		{"gone", hollow{500, 503, "", false}, 2, 502, "request_crashes_engine"},
		{"gone, said with a 503", hollow{503, 503, "", false}, 2, 502, "request_crashes_engine"},
		{"well", hollow{500, 200, "", false}, 3, 502, "upstream_error"},
		{"well, and overloaded", hollow{503, 200, "", false}, 3, 503, "upstream_error"},
		{"changing its size", hollow{503, 503, `{"error":"The model is scaling."}`, false}, 3, 503, "upstream_error"},
		{"behind a proxy that lets /health not through", hollow{500, 404, "", false}, 3, 502, "upstream_error"},
		{"behind a proxy, gone", hollow{503, 503, "no healthy upstream", true}, 2, 502, "request_crashes_engine"},
		{"behind a proxy that turns requests away", hollow{503, 503, "no healthy upstream", false}, 3, 503, "upstream_error"},
		{"behind another proxy, gone", hollow{502, 502, "<html>", true}, 2, 502, "request_crashes_engine"},
		{"behind another proxy that turns requests away", hollow{502, 504, "<html>", false}, 3, 502, "upstream_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inMemory(t, option{replicas: 4, front: tt.replicas.front}, func(t *testing.T, h *house) {
				time.Sleep(3 * time.Second)
				status, body := h.chat(chatBody(true, 5, "poison"))
				if status != tt.status || !strings.Contains(body, tt.code) {
					t.Errorf("status %d, body %s", status, body)
				}
				if r := h.records.wait(t, 1)[0]; r.Attempts != tt.attempts {
					t.Errorf("%d attempts, want %d", r.Attempts, tt.attempts)
				}
				for i := range 20 { // those that meet the dead engines have not killed them
					body := chatBody(i%2 == 0, 5, fmt.Sprint("harmless ", i))
					if status, answer := h.chat(body); strings.Contains(answer, "request_crashes_engine") || tt.attempts == 2 && status != 200 {
						t.Errorf("request %d: status %d, %s", i, status, answer)
					}
				}
			})
		})
	}
}
