package faultbench_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/tenant"
	"github.com/expediterhq/expediter/usage"
)

// retrying is how OpenAI's clients decide whether to send a request again.
func retrying(a faultbench.Answer) bool {
	switch a.Header.Get("X-Should-Retry") {
	case "true":
		return true
	case "false":
		return false
	}
	return a.Status == 408 || a.Status == 409 || a.Status == 429 || a.Status >= 500
}

// sdk makes a request as OpenAI's clients do, with two retries, but does not
// wait in between. It returns the number of requests it sent.
func sdk(t *testing.T, h *faultbench.House, r faultbench.Request) (faultbench.Answer, int) {
	t.Helper()
	for n := 1; ; n++ {
		a := h.Do(t.Context(), r)
		if n == 3 || a.Err != nil || !retrying(a) {
			return a, n
		}
	}
}

// TestF8SDKRetries: where trying again helps, the client is told when; where
// it cannot, not to.
func TestF8SDKRetries(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{
		Tenant: func(tn *tenant.Tenant) {
			tn.Limit = quota.Limit{Windows: []quota.Window{{Name: "minute", Rate: 10, Burst: 500}}}
		},
	})
	if a, n := sdk(t, h, faultbench.Request{MaxTokens: 5000}); a.Status != 400 || n != 1 || a.Header.Get("Retry-After") != "" {
		t.Errorf("above the whole quota: status %d after %d requests, %v", a.Status, n, a.Header)
	}
	if a, n := sdk(t, h, faultbench.Request{MaxTokens: 400}); !a.OK() || n != 1 {
		t.Fatalf("status %d after %d requests: %s", a.Status, n, a.Body)
	}
	a, n := sdk(t, h, faultbench.Request{MaxTokens: 380})
	after, err := strconv.Atoi(a.Header.Get("Retry-After"))
	// About 407 of 500 are gone and some 393 are asked for: 30 s at 10 a
	// second, and up to a quarter more, so that not all return at once.
	if a.Status != 429 || n != 3 || err != nil || after < 28 || after > 40 {
		t.Errorf("quota used up: status %d after %d requests, Retry-After %q, want about 30", a.Status, n, a.Header.Get("Retry-After"))
	}
}

// TestF8LineFull: a full line says so, with a time.
func TestF8LineFull(t *testing.T) {
	line, err := admission.NewController(admission.Config{MaxWaiting: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	release := make(chan struct{})
	h := faultbench.Open(t, faultbench.Options{
		Replica: func(_ int, r *faultbench.Replica) { r.KV = 16 << 10 },
		Config:  func(c *expediter.Config) { c.Pools[0].Admitter = line },
		Respond: func(g *faultbench.Got) faultbench.Script {
			<-release
			return faultbench.Speak(g).Script()
		},
	})
	h.Eventually("the capacity", func() bool { full, _ := h.Members[0].Capacity(); return full > 0 })
	var wg sync.WaitGroup
	large := func() {
		if a := h.Do(context.Background(), faultbench.Request{MaxTokens: 50, Pad: 40_000}); !a.OK() {
			t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
		}
	}
	wg.Go(large)
	h.Eventually("one to run", func() bool { return h.Replicas[0].Running() == 1 })
	wg.Go(large)
	h.Eventually("one to wait", func() bool { return line.Stats().Waiting == 1 })
	a, n := sdk(t, h, faultbench.Request{MaxTokens: 50, Pad: 40_000})
	if after, err := strconv.Atoi(a.Header.Get("Retry-After")); a.Status != 429 || n != 3 || err != nil || after < 1 {
		t.Errorf("status %d after %d requests, Retry-After %q: %s", a.Status, n, a.Header.Get("Retry-After"), a.Body)
	}
	close(release)
	wg.Wait()
}

// TestQ7LineAtShutdown: those in line are refused at once when the gateway
// drains, with all they had reserved given back.
func TestQ7LineAtShutdown(t *testing.T) {
	const waiting = 500
	release := make(chan struct{})
	h := faultbench.Open(t, faultbench.Options{
		Replica: func(_ int, r *faultbench.Replica) { r.KV = 16 << 10 },
		Respond: func(g *faultbench.Got) faultbench.Script {
			<-release
			return faultbench.Speak(g).Script()
		},
	})
	h.Eventually("the capacity", func() bool { full, _ := h.Members[0].Capacity(); return full > 0 })
	var wg sync.WaitGroup
	wg.Go(func() {
		if a := h.Do(context.Background(), faultbench.Request{Stream: true, MaxTokens: 50, Pad: 52_000}); !a.OK() {
			t.Errorf("the running one: %v, status %d: %s", a.Err, a.Status, a.Body)
		}
	})
	h.Eventually("one to run", func() bool { return h.Replicas[0].Running() == 1 })
	var refused atomic.Int32
	for range waiting {
		wg.Go(func() {
			a := h.Do(context.Background(), faultbench.Request{Stream: true, MaxTokens: 5, Pad: 6000})
			if a.Status != 503 || a.Header.Get("Retry-After") == "" || a.Code != "shutting_down" {
				t.Errorf("one in line: %v, status %d: %s", a.Err, a.Status, a.Body)
			}
			refused.Add(1)
		})
	}
	h.Eventually("the line", func() bool { return h.Handler.Lines()["small"].Waiting == waiting })
	drained := make(chan error, 1)
	go func() { drained <- h.Handler.Drain(context.Background()) }()
	h.Eventually("refusals", func() bool { return refused.Load() == waiting })
	if n := h.Handler.InFlight(); n != 1 {
		t.Errorf("%d requests under way, want the running one", n)
	}
	close(release)
	if err := <-drained; err != nil {
		t.Errorf("Drain = %v", err)
	}
	wg.Wait()
}

// TestQ8RecordsSurvive: a sink that blocks, fails or panics delays nobody;
// what its buffer cannot hold is counted.
func TestQ8RecordsSurvive(t *testing.T) {
	for _, how := range []string{"Q8 blocks", "Q8 fails", "Q8 panics"} {
		t.Run(how, func(t *testing.T) {
			hold := make(chan struct{})
			sink := usage.NewFunc(func(ctx context.Context, _ *expediter.Record) error {
				switch how {
				case "Q8 blocks":
					select {
					case <-hold:
					case <-ctx.Done():
					}
				case "Q8 fails":
					return errors.New("disk full")
				case "Q8 panics":
					panic("sink")
				}
				return nil
			}, usage.FuncConfig{})
			h := faultbench.Open(t, faultbench.Options{Config: func(c *expediter.Config) { c.Usage = usage.NewMulti(c.Usage, sink) }})
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					for i := range 10 {
						if a := h.Do(context.Background(), faultbench.Request{Stream: i%2 == 0, MaxTokens: 3}); !a.OK() {
							t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
						}
					}
				})
			}
			wg.Wait() // although the sink is stuck
			h.Check()
			close(hold)
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_ = sink.Close(ctx) // one that fails for ever is given up in the end
			if n := sink.Written() + sink.Dropped() + uint64(sink.Waiting()); n != 100 {
				t.Errorf("%d written, %d dropped and %d waiting, want 100 in all", sink.Written(), sink.Dropped(), sink.Waiting())
			}
			if how == "Q8 blocks" && sink.Written() != 100 {
				t.Errorf("%d records were written once the sink went on", sink.Written())
			}
		})
	}
}

// TestP11KeyGuessing: a flood of wrong keys is turned away before anything is
// looked up for it, and good keys go on.
func TestP11KeyGuessing(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var refused atomic.Int32
	for range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				a := h.Send(context.Background(), "/v1/chat/completions", strings.NewReader("{}"), map[string][]string{"Authorization": {"Bearer xp-" + strconv.Itoa(n)}}, nil)
				if a.Status != 401 && a.Status != 429 {
					t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
				}
				refused.Add(1)
			}
		})
	}
	for range 100 {
		if a := h.Do(t.Context(), faultbench.Request{MaxTokens: 2}); !a.OK() {
			t.Errorf("a good key: %v, status %d: %s", a.Err, a.Status, a.Body)
		}
	}
	close(stop)
	wg.Wait()
	if refused.Load() == 0 {
		t.Error("no flood")
	}
}
