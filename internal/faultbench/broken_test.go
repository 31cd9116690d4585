package faultbench_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
)

// first tells the first attempt of each request from later ones.
type first struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (f *first) attempt(g *faultbench.Got) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = make(map[string]bool)
	}
	was := f.seen[g.ID]
	f.seen[g.ID] = true
	return !was
}

// TestC1C2BrokenStreams: a stream that ends early never looks complete, is
// not tried again, and is charged for what it brought.
func TestC1C2BrokenStreams(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  faultbench.End
		half bool
		done bool
	}{
		{"C1 clean end", faultbench.Clean, false, false},
		{"C1 clean end and close", faultbench.Close, false, false},
		{"C1 bare [DONE]", faultbench.Clean, false, true},
		{"C2 FIN", faultbench.FIN, false, false},
		{"C2 RST", faultbench.RST, false, false},
		{"C2 RST after half an event", faultbench.RST, true, false},
		{"C2 clean end after half an event", faultbench.Clean, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
				p := faultbench.Speak(g).Deltas(20)
				if tc.half {
					p = append(p, faultbench.Piece{Data: []byte(`data: {"id":"HALF`)})
				}
				if tc.done {
					p = append(p, faultbench.Done())
				}
				sc := faultbench.Stream(p...)
				sc.End = tc.end
				return sc
			}})
			a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 50})
			if a.Err == nil || a.Error == "" || a.Done || a.Deltas != 20 || strings.Contains(a.Body, "HALF") {
				t.Errorf("%d deltas, error event %q, [DONE] %t, end %v", a.Deltas, a.Error, a.Done, a.Err)
			}
			h.Check()
			r := h.Records()[0]
			if r.Status != expediter.StatusTruncated || r.Output != 20 || r.Charged != int64(r.Input+20) || r.Attempts != 1 {
				t.Errorf("record = %+v", r)
			}
			if n := failures(h); n != 1 {
				t.Errorf("%d failures counted against replicas, want 1", n)
			}
		})
	}
}

// failures returns how many are counted against the replicas of a house.
func failures(h *faultbench.House) (all int) {
	for _, m := range h.Members {
		n, _ := m.Failures()
		all += n
	}
	return all
}

// TestC9ShortBody: a whole answer that breaks off is tried elsewhere, and is
// a 502 if nobody does better.
func TestC9ShortBody(t *testing.T) {
	for _, tc := range []struct {
		name   string
		length int
		end    faultbench.End
	}{
		{"C9 FIN before the length", 1000, faultbench.FIN},
		{"C9 RST before the length", 1000, faultbench.RST},
		{"C9 chunked and cut", 0, faultbench.FIN},
		{"C9 chunked, complete but half a document", 0, faultbench.Clean},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var attempts first
			hopeless := false
			h := faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
				sc := faultbench.Speak(g).Script()
				if attempts.attempt(g) || hopeless {
					sc.Pieces[0].Data = sc.Pieces[0].Data[:len(sc.Pieces[0].Data)/2]
					sc.Pieces[0].Tokens = 0
					sc.Length, sc.End = tc.length, tc.end
				}
				return sc
			}})
			a := h.Do(t.Context(), faultbench.Request{MaxTokens: 20})
			if !a.OK() || a.Finish != "length" {
				t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
			}
			hopeless = true
			a = h.Do(t.Context(), faultbench.Request{MaxTokens: 20})
			if a.Status != 502 || a.Error == "" || a.Err != nil {
				t.Errorf("%v, status %d: %s; want a 502", a.Err, a.Status, a.Body)
			}
			h.Check()
			for i, r := range h.Records() {
				if r.Attempts != 2 || i == 1 && r.Charged != 0 {
					t.Errorf("record = %+v", r)
				}
			}
		})
	}
}

// TestF2RetryBodyIntact: whatever happens to the first attempt before a
// token, the second replica gets the same bytes and the client one clean
// answer.
func TestF2RetryBodyIntact(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script faultbench.Script
		accept faultbench.Accept // of the first replica, if not Serve
		kill   bool
	}{
		{name: "F2 connection refused", kill: true},
		{name: "F2 reset on accept", accept: faultbench.Reset},
		{name: "F2 closed on accept", accept: faultbench.Hangup},
		{name: "F2 reset after the head", accept: faultbench.ResetHead},
		{name: "F2 reset after the request", script: faultbench.Script{End: faultbench.DropRST}},
		{name: "F2 closed after the request", script: faultbench.Script{End: faultbench.Drop}},
		{name: "F2 503", script: faultbench.JSON(503, []byte(`{"error":{"message":"busy","code":503}}`), 0)},
		{name: "F2 429", script: faultbench.JSON(429, []byte(`{}`), 0)},
		{name: "F2 head only", script: faultbench.Script{Header: http.Header{"Content-Type": {"text/event-stream"}}, End: faultbench.RST}},
	} {
		for _, pad := range []int{1 << 10, 1 << 20} {
			t.Run(tc.name, func(t *testing.T) { retryIntact(t, tc.script, tc.accept, tc.kill, pad) })
		}
	}
}

func retryIntact(t *testing.T, script faultbench.Script, accept faultbench.Accept, kill bool, pad int) {
	var attempts first
	unseen := kill || accept != faultbench.Serve
	h := faultbench.Open(t, faultbench.Options{
		Replicas: 3, Unseen: unseen,
		Config: func(c *expediter.Config) { c.Scrape = -1; c.Pools[0].MaxWait = 5 * time.Second },
		Replica: func(_ int, r *faultbench.Replica) {
			r.KV = 1 << 24
		},
		Respond: func(g *faultbench.Got) faultbench.Script {
			if !unseen && attempts.attempt(g) {
				return script
			}
			return faultbench.Speak(g).Script()
		},
	})
	h.Replicas[0].SetAccept(accept)
	if kill {
		h.Replicas[0].Kill()
	}
	retried := 0
	for n := 0; retried == 0; n++ {
		if n == 50 {
			t.Fatal("no request was ever tried twice")
		}
		a := h.Do(t.Context(), faultbench.Request{Stream: n%2 == 0, MaxTokens: 3, Pad: pad})
		if !a.OK() || a.Finish == "" || a.Roles > 1 || len(a.IDs) > 1 {
			t.Fatalf("%v, status %d: %s", a.Err, a.Status, a.Body)
		}
		h.Check()
		for _, r := range h.Records() {
			if r.Attempts > 1 {
				retried++
			}
		}
	}
	for id, got := range h.Ledger.ByID() {
		for _, g := range got {
			if string(g.Body) != string(got[0].Body) || len(g.Body) < pad {
				t.Errorf("request %s: attempts with %d and %d bytes, or others", id, len(got[0].Body), len(g.Body))
			}
			a, b := head(g), head(got[0])
			if a != b {
				t.Errorf("request %s: heads\n%s\n%s", id, a, b)
			}
		}
	}
}

// head is the head of a request without the host, sorted.
func head(g faultbench.Got) string {
	h := g.Header.Clone()
	var b strings.Builder
	b.WriteString(g.Path + "\n")
	_ = h.Write(&b)
	return b.String()
}

// TestF2LossOfAReplica: of two replicas with many requests on each one goes
// down; nobody notices but the other.
func TestF2LossOfAReplica(t *testing.T) {
	const requests = 400
	release := make(chan struct{})
	h := faultbench.Open(t, faultbench.Options{Replicas: 2, Unseen: true, Respond: func(g *faultbench.Got) faultbench.Script {
		<-release
		return faultbench.Speak(g).Script()
	}})
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() {
			if a := h.Do(context.Background(), faultbench.Request{Stream: i%2 == 0, MaxTokens: 3}); !a.OK() {
				t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
			}
		})
	}
	h.Eventually("all at the replicas", func() bool { return h.Ledger.Len() == requests })
	if n := h.Replicas[0].Running(); n < requests/4 {
		t.Fatalf("%d requests on the replica that goes down: the test is too weak", n)
	}
	h.Replicas[0].Kill()
	h.Eventually("all at the other", func() bool { return h.Replicas[1].Running() == requests || t.Failed() })
	close(release)
	wg.Wait()
}

// TestOutageIsNotAmplified: when the whole fleet fails, second tries stay
// within their budget.
func TestOutageIsNotAmplified(t *testing.T) {
	const requests, together = 800, 16
	h := faultbench.Open(t, faultbench.Options{Replicas: 4, Respond: func(*faultbench.Got) faultbench.Script {
		return faultbench.JSON(500, []byte("{}"), 0)
	}})
	var wg sync.WaitGroup
	for range together {
		wg.Go(func() {
			for range requests / together {
				if a := h.Do(context.Background(), faultbench.Request{MaxTokens: 3}); a.Status < 500 {
					t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
				}
			}
		})
	}
	wg.Wait()
	const budget = requests/10 + 64
	if n := h.Ledger.Len(); n > requests+budget+2*together {
		t.Errorf("%d executions of %d requests, want at most %d more", n, requests, budget)
	} else {
		t.Logf("%d executions of %d requests", n, requests)
	}
}

// TestF3RoleOnly: a role chunk is no token: another replica takes over and
// the client sees one role chunk and one id.
func TestF3RoleOnly(t *testing.T) {
	for _, end := range []faultbench.End{faultbench.FIN, faultbench.RST, faultbench.Clean} {
		var attempts first
		h := faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			if attempts.attempt(g) {
				s.ID = "cmpl-first"
				sc := faultbench.Stream(s.Role())
				sc.End = end
				return sc
			}
			return s.Script()
		}})
		a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 5})
		if !a.OK() || a.Roles != 1 || len(a.IDs) != 1 || a.IDs["cmpl-first"] {
			t.Errorf("%v, %d role chunks, ids %v: %s", a.Err, a.Roles, a.IDs, a.Body)
		}
		h.Close()
	}
}

// TestF4FirstTokenTimeout: a replica that takes a request and stalls is let go
// by the time another works on it; two executions at most, and one charge.
func TestF4FirstTokenTimeout(t *testing.T) {
	for _, stream := range []bool{true, false} {
		var attempts first
		h := faultbench.Open(t, faultbench.Options{
			Replicas: 2,
			Config: func(c *expediter.Config) {
				c.Timeouts.FirstToken, c.Timeouts.Answer = 1500*time.Millisecond, 1500*time.Millisecond
			},
			Respond: func(g *faultbench.Got) faultbench.Script {
				if attempts.attempt(g) {
					return faultbench.Script{End: faultbench.Silent}
				}
				return faultbench.Speak(g).Script()
			},
		})
		if a := h.Do(t.Context(), faultbench.Request{Stream: stream, MaxTokens: 5}); !a.OK() {
			t.Errorf("stream %t: %v, status %d: %s", stream, a.Err, a.Status, a.Body)
		}
		h.Check()
		got := h.Ledger.All()
		if len(got) != 2 || got[0].Gone.IsZero() || got[0].Gone.Sub(got[1].Arrived) > soon {
			t.Fatalf("stream %t: %d executions, the first let go at %v", stream, len(got), got[0].Gone)
		}
		if r := h.Records()[0]; r.Attempts != 2 || r.Charged != 12 || got[0].Tokens != 0 {
			t.Errorf("stream %t: record = %+v", stream, r)
		}
		h.Close()
	}
}

// TestF4RoleChunksAreNoProgress: a replica that says something now and then,
// but no token, is given up at the limit for the first token; comments are no
// tokens either (A7).
func TestF4RoleChunksAreNoProgress(t *testing.T) {
	var attempts first
	h := faultbench.Open(t, faultbench.Options{
		Replicas: 2,
		Config:   func(c *expediter.Config) { c.Timeouts.FirstToken = 1500 * time.Millisecond },
		Respond: func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			if !attempts.attempt(g) {
				return s.Script()
			}
			var p []faultbench.Piece
			for range 100 {
				role := s.Role()
				role.Pause = 50 * time.Millisecond
				p = append(p, role, faultbench.Piece{Data: []byte(": ping\n\n")})
			}
			return faultbench.Stream(append(p, s.Body()...)...)
		},
	})
	a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 5})
	if !a.OK() || a.Roles != 1 {
		t.Errorf("%v, %d role chunks", a.Err, a.Roles)
	}
	h.Check()
	if r := h.Records()[0]; r.Attempts != 2 || h.Ledger.Len() != 2 {
		t.Errorf("%d attempts, %d in the ledgers, want 2: %+v", r.Attempts, h.Ledger.Len(), r)
	}
}

// TestF6NoHiddenReplay: a kept connection that closes after the request was
// read costs one attempt that is counted, with and without a header that makes
// transports replay by themselves.
func TestF6NoHiddenReplay(t *testing.T) {
	for _, header := range []http.Header{nil, {"Idempotency-Key": {"1"}, "X-Idempotency-Key": {"1"}}} {
		var attempts first
		var drop atomic.Bool
		h := faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
			if attempts.attempt(g) && drop.Load() {
				return faultbench.Script{End: faultbench.Drop}
			}
			return faultbench.Speak(g).Script()
		}})
		for range 5 {
			for _, stream := range []bool{true, false} {
				if a := h.Do(t.Context(), faultbench.Request{Stream: stream, MaxTokens: 3, Header: header}); !a.OK() {
					t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
				}
				drop.Store(true)
			}
		}
		h.Close() // compares attempts with the ledger
	}
}

// TestF10FailedReplicaIsFreed: while the second replica works, the first has
// nothing on it.
func TestF10FailedReplicaIsFreed(t *testing.T) {
	var attempts first
	var h *faultbench.House
	failed := make(chan string, 1)
	looked := make(chan error, 1)
	h = faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
		if attempts.attempt(g) {
			failed <- g.Replica
			return faultbench.JSON(500, []byte(`{}`), 0)
		}
		bad := <-failed
		for _, m := range h.Members {
			want := 1
			if m.Name() == bad {
				want = 0
			}
			if n := m.Load().Requests; n != want {
				t.Errorf("%s (the first was %s): %d requests, want %d", m.Name(), bad, n, want)
			}
		}
		looked <- nil
		return faultbench.Speak(g).Script()
	}})
	if a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 5}); !a.OK() {
		t.Errorf("%v: %s", a.Err, a.Body)
	}
	<-looked
}

// TestF12Poison: a request that takes down every engine that gets it takes
// two at most, on fresh connections and on kept ones, however often its
// client tries; other requests are served.
func TestF12Poison(t *testing.T) {
	for _, tc := range []struct {
		name     string
		replicas int
		warm     bool
		delay    time.Duration
		down     time.Duration // if zero, for ever
	}{
		{"F12 at once, kept connections", 8, true, 0, 0},
		{"F12 at once, fresh connections", 8, false, 0, 0},
		{"F12 after a while", 8, true, 150 * time.Millisecond, 0},
		{"F12 one replica that comes back", 1, true, 150 * time.Millisecond, time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) { poison(t, tc.replicas, tc.warm, tc.delay, tc.down) })
	}
}

// harmless sends requests that every replica can serve.
func harmless(t *testing.T, h *faultbench.House) {
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if a := h.Do(context.Background(), faultbench.Request{Stream: true, MaxTokens: 5}); !a.OK() {
				t.Errorf("another request: %v, status %d: %s", a.Err, a.Status, a.Body)
			}
		})
	}
	wg.Wait()
}

func poison(t *testing.T, replicas int, warm bool, delay, down time.Duration) {
	h := faultbench.Open(t, faultbench.Options{
		Replicas: replicas, Unseen: true,
		Replica: func(_ int, r *faultbench.Replica) {
			r.Fatal = faultbench.Fatal{Text: "POISON", After: delay, Down: down}
		},
	})
	good := func() { harmless(t, h) }
	if warm {
		good()
	}
	bad := faultbench.Request{Stream: true, MaxTokens: 5, Text: "POISON"}
	body, _ := bad.Body()
	var last faultbench.Answer
	for range 6 {
		if down > 0 { // wait until the restart was seen
			gen := h.Members[0].Generation()
			last = h.Send(t.Context(), "/v1/chat/completions", strings.NewReader(body), nil, nil)
			if last.Code == "request_crashes_engine" {
				break
			}
			h.Eventually("the restart to be seen", func() bool { return h.Members[0].Generation() != gen })
			continue
		}
		last = h.Send(t.Context(), "/v1/chat/completions", strings.NewReader(body), nil, nil)
		if last.OK() {
			t.Errorf("the poison was answered: %s", last.Body)
		}
		good()
	}
	killed := 0
	for _, r := range h.Replicas {
		killed += r.Deaths()
	}
	if killed > 2 {
		t.Errorf("%d replicas were lost, want at most 2", killed)
	}
	if last.Code != "request_crashes_engine" || last.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("at last: status %d, %s", last.Status, last.Body)
	}
}
