package expediter_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim"
)

// firstFirst sends requests to r0 whenever it takes any, or else to r1, and so on.
func firstFirst(c *expediter.Config) {
	first := router.ScorerFunc(func(cost []float64, _ *router.Request, replicas []*registry.Replica) {
		for i, r := range replicas {
			cost[i] = float64(r.Name()[1] - '0')
		}
	})
	c.Pools[0].Router = router.New(router.Config{Scorers: []router.Scorer{first}})
}

// warm has each engine make its first steps, and waits until all have reported.
func (h *house) warm() {
	h.t.Helper()
	for _, r := range h.replicas {
		body := strings.NewReader(`{"model":"` + servedModel + `","max_tokens":1,"messages":[{"role":"user","content":"warm"}]}`)
		resp, err := h.client.Post(r.url+"/v1/chat/completions", "application/json", body)
		must(h.t, err)
		if readAll(h.t, resp); resp.StatusCode != 200 {
			h.t.Fatalf("warming up: status %d", resp.StatusCode)
		}
	}
	time.Sleep(3 * time.Second)
}

// freezing hangs the engine of the first n replicas that get a request with
// "freeze" in it; its server answers everything else.
func freezing(n int, h **house) func(int, http.Handler) http.Handler {
	left := n
	return func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			if strings.Contains(string(b), "freeze") && left > 0 {
				left--
				(*h).replicas[i].Hang()
			}
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			next.ServeHTTP(w, r)
		})
	}
}

// TestJ3RequestsOnAFrozenEngineFailOver: they leave it when it is ejected,
// streamed or not, long before the limits for slow prompts.
func TestJ3RequestsOnAFrozenEngineFailOver(t *testing.T) {
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("stream %t", stream), func(t *testing.T) {
			var h *house
			inMemory(t, option{replicas: 4, front: freezing(1, &h)}, func(t *testing.T, open *house) {
				h = open
				h.warm()
				began := time.Now()
				if status, body := h.chat(chatBody(stream, 3, "freeze")); status != 200 {
					t.Errorf("status %d, body %s", status, body)
				}
				// 7.5 s without a step, since the engine shows no work, two reports,
				// and a look each second.
				if d := time.Since(began); d < 7*time.Second || d > 10*time.Second {
					t.Errorf("answered after %v, want 7 to 10 s", d)
				}
				r := h.records.wait(t, 1)[0]
				if r.Attempts != 2 || r.Status != expediter.StatusOK || r.Charged != int64(r.Input+3) {
					t.Errorf("record = %+v, want ok at the second attempt, charged once", r)
				}
				if log := h.logs.String(); !strings.Contains(log, "the engine stands still") {
					t.Errorf("the log does not say why:\n%s", log)
				}
			})
		})
	}
}

// TestJ3RequestsOnASilentMachineFailOver: the same for a replica that answers
// nothing at all, and so is ejected by its probes.
func TestJ3RequestsOnASilentMachineFailOver(t *testing.T) {
	silent := make(chan struct{})
	front := func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i == 0 && r.Method == http.MethodPost {
				close(silent) // it gets none after this one
			}
			select {
			case <-silent:
				if i == 0 {
					_, _ = io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
					return
				}
			default:
			}
			next.ServeHTTP(w, r)
		})
	}
	inMemory(t, option{replicas: 2, front: front}, func(t *testing.T, h *house) {
		h.replicas[1].reg.Drain()
		time.Sleep(3 * time.Second)
		go func() {
			<-silent
			h.replicas[1].reg.Resume()
		}()
		began := time.Now()
		if status, body := h.chat(chatBody(false, 3, "hi")); status != 200 {
			t.Errorf("status %d, body %s", status, body)
		}
		if d := time.Since(began); d > 30*time.Second {
			t.Errorf("answered after %v, want three probes' time, half a minute at most; log:\n%s", d, h.logs)
		}
		if r := h.records.wait(t, 1)[0]; r.Attempts != 2 || r.Status != expediter.StatusOK {
			t.Errorf("record = %+v, want ok at the second attempt", r)
		}
	})
}

// TestFreezingRequest: a request under which two engines froze gets no third.
func TestFreezingRequest(t *testing.T) {
	var h *house
	inMemory(t, option{replicas: 8, front: freezing(8, &h)}, func(t *testing.T, open *house) {
		h = open
		h.warm()
		if status, body := h.chat(chatBody(true, 3, "freeze")); status != 502 || !strings.Contains(body, "request_crashes_engine") {
			t.Errorf("status %d, body %s", status, body)
		}
		if r := h.records.wait(t, 1)[0]; r.Attempts != 2 || r.Charged != 0 {
			t.Errorf("record = %+v, want two attempts and no charge", r)
		}
		if status, body := h.chat(chatBody(true, 3, "harmless")); status != 200 {
			t.Errorf("another request: status %d, body %s", status, body)
		}
		for _, r := range h.replicas {
			r.Resume()
		}
	})
}

// mediaBody is a chat request with a picture.
const mediaBody = `{"model":"gpt-fast","stream":true,"max_tokens":3,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://pictures.test/1.png"}}]}]}`

// preparing has the server before each engine take so long before the engine gets
// a request with such words in it.
func preparing(words string, d time.Duration) func(int, http.Handler) http.Handler {
	return func(_ int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			if strings.Contains(string(b), words) {
				select {
				case <-time.After(d):
				case <-r.Context().Done():
					return
				}
			}
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			next.ServeHTTP(w, r)
		})
	}
}

// TestSlowPreparationIsNoFreeze: the server before the engine may fetch pictures
// for long, and take its time for a prompt, while the engine has nothing to do.
func TestSlowPreparationIsNoFreeze(t *testing.T) {
	for _, tt := range []struct {
		name, words, body string
		takes             time.Duration
	}{
		{"media", "pictures.test", mediaBody, 40 * time.Second},
		{"a prompt", "prompt", chatBody(true, 3, "prompt"), 7 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inMemory(t, option{replicas: 4, front: preparing(tt.words, tt.takes)}, func(t *testing.T, h *house) {
				h.warm()
				began := time.Now()
				status, body := h.chat(tt.body)
				if d := time.Since(began); status != 200 || d < tt.takes || d > tt.takes+time.Second {
					t.Errorf("status %d after %v, want 200 after %v: %.200s", status, d, tt.takes, body)
				}
				if r := h.records.wait(t, 1)[0]; r.Attempts != 1 {
					t.Errorf("%d attempts, want one", r.Attempts)
				}
				if log := h.logs.String(); strings.Contains(log, "replica ejected") {
					t.Errorf("a replica was ejected; log:\n%s", log)
				}
			})
		})
	}
}

// TestFirstStepMayTakeLong: an engine that was just started may compile for the
// first request that it gets.
func TestFirstStepMayTakeLong(t *testing.T) {
	inMemory(t, option{replicas: 4, config: firstFirst}, func(t *testing.T, h *house) {
		time.Sleep(3 * time.Second)
		h.replicas[0].Hang()
		go func() {
			time.Sleep(40 * time.Second)
			h.replicas[0].Resume()
		}()
		if status, body := h.chat(chatBody(true, 3, "hi")); status != 200 {
			t.Errorf("status %d: %s", status, body)
		}
		if r := h.records.wait(t, 1)[0]; r.Attempts != 1 || r.Replica != "r0" {
			t.Errorf("record = %+v, want one attempt on r0", r)
		}
	})
}

// TestSlowClientIsNoFreeze: a client that reads slowly keeps its request, whose
// answer the engine has long computed.
func TestSlowClientIsNoFreeze(t *testing.T) {
	inMemory(t, option{replicas: 2, config: firstFirst}, func(t *testing.T, h *house) {
		time.Sleep(3 * time.Second)
		resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 3000, "hi"))
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		idle := 0
		for range 28 {
			time.Sleep(time.Second)
			if h.replicas[0].reg.State().Running == 0 && h.replicas[0].reg.Load().Requests == 1 {
				idle++
			}
			if why, out := h.replicas[0].reg.Ejected(); out {
				t.Fatalf("ejected: %s", why)
			}
		}
		if idle < 15 {
			t.Errorf("the engine was done for %d s while the client read: the test shows nothing", idle)
		}
		if body := readAll(t, resp); !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("stream ends with %q", body[max(0, len(body)-100):])
		}
	})
}

// TestStreamOnAFrozenEngine: a stream that has begun stays with its engine, which
// may go on, until the limit of its own.
func TestStreamOnAFrozenEngine(t *testing.T) {
	inMemory(t, option{replicas: 2, sim: func(c *sim.Config) { c.Speed = 1 }}, func(t *testing.T, h *house) {
		h.replicas[1].reg.Drain()
		time.Sleep(3 * time.Second)
		resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 200, "hi"))
		first := make([]byte, 1)
		if _, err := resp.Body.Read(first); err != nil {
			t.Fatal(err)
		}
		h.replicas[1].reg.Resume()
		h.replicas[0].Hang()
		time.Sleep(9 * time.Second)
		if why, out := h.replicas[0].reg.Ejected(); !out {
			t.Errorf("Ejected = %q, %t; want it frozen", why, out)
		}
		h.replicas[0].Resume()
		if body := readAll(t, resp); !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("stream ends with %q", body[max(0, len(body)-100):])
		}
		if r := h.records.wait(t, 1)[0]; r.Attempts != 1 || r.Status != expediter.StatusOK || r.Output != 200 {
			t.Errorf("record = %+v, want ok at the first attempt", r)
		}
	})
}

// TestTrialHasTime: what the engine did before does not count against the request
// that it is tried with again.
func TestTrialHasTime(t *testing.T) {
	slow := false
	front := func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i == 0 && r.Method == http.MethodPost && slow {
				time.Sleep(8 * time.Second)
			}
			next.ServeHTTP(w, r)
		})
	}
	inMemory(t, option{replicas: 2, front: front, config: firstFirst}, func(t *testing.T, h *house) {
		h.warm()
		h.replicas[0].Hang()
		if status, body := h.chat(chatBody(false, 3, "one")); status != 200 {
			t.Fatalf("status %d, body %s", status, body)
		}
		h.replicas[0].Resume()
		time.Sleep(15 * time.Second) // its pause is over
		slow = true
		if status, body := h.chat(chatBody(false, 3, "two")); status != 200 {
			t.Fatalf("the trial: status %d, body %s", status, body)
		}
		if r := h.records.wait(t, 2)[1]; r.Attempts != 1 || r.Replica != "r0" {
			t.Errorf("record = %+v, want r0 at the first attempt", r)
		}
	})
}

// TestTrialsOfFrozenEngines: an engine that still makes no step costs the request
// that it is tried with some seconds, and says nothing against that request.
func TestTrialsOfFrozenEngines(t *testing.T) {
	inMemory(t, option{replicas: 5, config: firstFirst}, func(t *testing.T, h *house) {
		h.warm()
		for i, r := range h.replicas[:2] {
			r.Hang()
			if status, body := h.chat(chatBody(false, 3, fmt.Sprint(i))); status != 200 {
				t.Fatalf("request %d: status %d, body %s", i, status, body)
			}
		}
		time.Sleep(10 * time.Second) // the pauses of both are over
		began := time.Now()
		if status, body := h.chat(chatBody(false, 3, "two")); status != 200 {
			t.Fatalf("the trials: status %d, body %s", status, body)
		}
		if d := time.Since(began); d < 20*time.Second || d > 25*time.Second {
			t.Errorf("answered after %v, want 10 to 12 s for each trial", d)
		}
		if r := h.records.wait(t, 3)[2]; r.Attempts != 3 || r.Replica != "r2" {
			t.Errorf("record = %+v, want r2 at the third attempt", r)
		}
		h.replicas[0].Resume()
		h.replicas[1].Resume()
	})
}

// TestRequestsThatFailDoNotHideASilentMachine: a replica may be ejected for the
// requests that failed before its probes tell; those that wait leave it too.
func TestRequestsThatFailDoNotHideASilentMachine(t *testing.T) {
	waits := make(chan struct{})
	front := func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			first := strings.Contains(string(b), "waits")
			if i == 0 && first {
				close(waits)
			}
			select {
			case <-waits:
				if i == 0 && r.Method == http.MethodPost && !first {
					panic(http.ErrAbortHandler)
				}
				if i == 0 {
					<-r.Context().Done()
					return
				}
			default:
			}
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			next.ServeHTTP(w, r)
		})
	}
	inMemory(t, option{replicas: 2, front: front, config: firstFirst}, func(t *testing.T, h *house) {
		time.Sleep(3 * time.Second)
		began, took := time.Now(), make(chan time.Duration, 1)
		go func() {
			if status, body := h.chat(chatBody(false, 3, "waits")); status != 200 {
				t.Errorf("status %d, body %s", status, body)
			}
			took <- time.Since(began)
		}()
		<-waits
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() { h.chat(chatBody(false, 3, fmt.Sprint(i))) })
		}
		all.Wait()
		if why, out := h.replicas[0].reg.Ejected(); !out || why != registry.ByFailures {
			t.Errorf("Ejected = %q, %t; want it for failures", why, out)
		}
		if d := <-took; d > 30*time.Second {
			t.Errorf("the request that waited was answered after %v, want three probes' time, half a minute at most", d)
		}
	})
}
