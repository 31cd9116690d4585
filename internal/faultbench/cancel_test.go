package faultbench_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/quota"
)

// soon is far below any time-out that could end a wait instead of what is
// being tested.
const soon = 5 * time.Second

// TestE1StreamClientLeaves: each of many replicas' connections closes as its
// client leaves, by FIN or RST.
func TestE1StreamClientLeaves(t *testing.T) {
	for name, reset := range map[string]bool{"E1 FIN": false, "E1 RST": true} {
		t.Run(name, func(t *testing.T) {
			const streams = 300
			h := faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
				sc := faultbench.Stream(faultbench.Speak(g).Deltas(5)...)
				sc.End = faultbench.Stall
				return sc
			}})
			left := make([]time.Time, streams)
			asks := make([]string, streams)
			var wg sync.WaitGroup
			for i := range streams {
				wg.Go(func() {
					r := faultbench.Request{Stream: true, MaxTokens: 500}
					_, asks[i] = r.Body()
					l := h.Ask(r)
					if err := l.Deltas(5); err != nil {
						t.Errorf("stream %d: %v", i, err)
					}
					left[i] = l.Leave(reset)
				})
			}
			wg.Wait()
			h.Check()
			late := cancelDelays(t, h, asks, left)
			t.Logf("the replica saw it after %v (p50), %v (p99), %v (most)", late[streams/2], late[streams*99/100], late[streams-1])
			for _, r := range h.Records() {
				if r.Status != expediter.StatusCancelled || r.Output != 5 || r.Charged != 12 {
					t.Fatalf("record = %+v", r)
				}
			}
		})
	}
}

// cancelDelays returns the times from clients' leaving to the replicas'
// seeing it, sorted.
func cancelDelays(t *testing.T, h *faultbench.House, asks []string, left []time.Time) []time.Duration {
	t.Helper()
	at := make(map[string]time.Time)
	for _, g := range h.Ledger.All() {
		at[g.Nonce] = g.Gone
	}
	var late []time.Duration
	for i, n := range asks {
		gone := at[n]
		if gone.IsZero() {
			t.Errorf("the replica never saw client %d leave", i)
			continue
		}
		d := max(gone.Sub(left[i]), 0)
		if d > soon {
			t.Errorf("the replica saw client %d leave after %v", i, d)
		}
		late = append(late, d)
	}
	slices.Sort(late)
	return late
}

// TestE2WholeClientLeaves: also when the answer is not streamed.
func TestE2WholeClientLeaves(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Respond: func(*faultbench.Got) faultbench.Script {
		return faultbench.Script{End: faultbench.Silent}
	}})
	r := faultbench.Request{MaxTokens: 50}
	_, own := r.Body()
	l := h.Ask(r)
	h.Eventually("the request at the replica", func() bool { return h.Ledger.Len() == 1 })
	left := l.Leave(false)
	h.Check()
	cancelDelays(t, h, []string{own}, []time.Time{left})
	if rec := h.Records()[0]; rec.Status != expediter.StatusCancelled || rec.Output != 0 || rec.HTTPStatus != 499 {
		t.Errorf("record = %+v", rec)
	}
}

// slowQuota is a store that hears nothing for a while.
type slowQuota struct {
	quota.Store
	waiting chan struct{}
}

func (s slowQuota) Reserve(ctx context.Context, r quota.Reservation) error {
	s.waiting <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// TestE3CancelInEveryState: a large body, and a client that leaves while its
// request waits: for the rest of its body, the quota store, a place in line,
// a connection, an answer's head, a first token.
func TestE3CancelInEveryState(t *testing.T) {
	const pad = 100 << 10
	wait := func(t *testing.T, h *faultbench.House, what string, ok func() bool) {
		t.Helper()
		h.Eventually(what, ok)
	}
	t.Run("E3 body", func(t *testing.T) {
		h := faultbench.Open(t, faultbench.Options{})
		r := faultbench.Request{Stream: true, MaxTokens: 5, Pad: pad}
		body, _ := r.Body()
		l := h.Dial()
		fmt.Fprintf(l.Conn, "%s%s", h.Head(len(body)), body[:pad/2])
		wait(t, h, "the request", func() bool { return h.Handler.InFlight() == 1 })
		l.Leave(false)
		wait(t, h, "its end", func() bool { return h.Handler.InFlight() == 0 })
		if n := h.Ledger.Len(); n != 0 {
			t.Errorf("%d requests reached the replica", n)
		}
	})
	t.Run("E3 quota", func(t *testing.T) {
		slow := slowQuota{waiting: make(chan struct{}, 1)}
		h := faultbench.Open(t, faultbench.Options{Config: func(c *expediter.Config) { slow.Store = c.Quota; c.Quota = slow }})
		l := h.Ask(faultbench.Request{Stream: true, MaxTokens: 5, Pad: pad})
		<-slow.waiting
		l.Leave(true)
		h.Check()
		if r := h.Records()[0]; r.Status != expediter.StatusCancelled || r.Charged != 0 || r.Attempts != 0 {
			t.Errorf("record = %+v", r)
		}
	})
	for name, script := range map[string]func(*faultbench.Got) faultbench.Script{
		"E3 head": func(*faultbench.Got) faultbench.Script { return faultbench.Script{End: faultbench.Silent} },
		"E3 first token": func(g *faultbench.Got) faultbench.Script {
			sc := faultbench.Stream(faultbench.Speak(g).Role())
			sc.End = faultbench.Stall
			return sc
		},
		"E7 silent in the middle": func(g *faultbench.Got) faultbench.Script {
			sc := faultbench.Stream(faultbench.Speak(g).Deltas(3)...)
			sc.End = faultbench.Stall
			return sc
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := faultbench.Open(t, faultbench.Options{Respond: script})
			r := faultbench.Request{Stream: true, MaxTokens: 50, Pad: pad}
			_, own := r.Body()
			l := h.Ask(r)
			wait(t, h, "the request at the replica", func() bool { return h.Replicas[0].Running() == 1 })
			if strings.HasPrefix(name, "E7") {
				if err := l.Deltas(3); err != nil {
					t.Error(err)
				}
			}
			left := l.Leave(false)
			h.Check()
			cancelDelays(t, h, []string{own}, []time.Time{left})
		})
	}
	t.Run("E3 silent connection", func(t *testing.T) {
		h := faultbench.Open(t, faultbench.Options{
			Unseen:  true,
			Replica: func(_ int, r *faultbench.Replica) { r.SetAccept(faultbench.Mute) },
			Config:  func(c *expediter.Config) { c.Scrape = -1 },
		})
		l := h.Ask(faultbench.Request{Stream: true, MaxTokens: 50, Pad: pad})
		wait(t, h, "the lease", func() bool { return h.Members[0].Load().Requests == 1 })
		l.Leave(false)
		h.Check()
		if r := h.Records()[0]; r.Status != expediter.StatusCancelled || r.Output != 0 {
			t.Errorf("record = %+v", r)
		}
	})
}

// TestE5ClientLeavesQueue: of 200 in line 150 leave; they never reach a
// replica, and the others are served.
func TestE5ClientLeavesQueue(t *testing.T) {
	const waiting, leaving = 200, 150
	release := make(chan struct{})
	h := faultbench.Open(t, faultbench.Options{
		Replica: func(_ int, r *faultbench.Replica) { r.KV = 16 << 10 },
		Respond: func(g *faultbench.Got) faultbench.Script {
			if strings.Contains(string(g.Body), "BLOCKER") {
				<-release
			}
			return faultbench.Speak(g).Script()
		},
	})
	h.Eventually("the capacity", func() bool { full, _ := h.Members[0].Capacity(); return full > 0 })
	var wg sync.WaitGroup
	wg.Go(func() {
		h.Do(context.Background(), faultbench.Request{Stream: true, MaxTokens: 50, Text: "BLOCKER", Pad: 52_000})
	})
	h.Eventually("the blocker", func() bool { return h.Replicas[0].Running() == 1 })
	leavers := make([]*faultbench.Leaver, leaving)
	for i := range leavers {
		leavers[i] = h.Ask(faultbench.Request{Stream: true, MaxTokens: 5, Text: "LEAVER", Pad: 6000})
	}
	h.Eventually("those that will leave", func() bool { return h.Handler.Lines()["small"].Waiting == leaving })
	var asked []string
	for i := range waiting - leaving {
		r := faultbench.Request{Stream: true, MaxTokens: 5, Pad: 6000}
		_, own := r.Body()
		asked = append(asked, own)
		wg.Go(func() {
			if a := h.Do(context.Background(), r); !a.OK() {
				t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
			}
		})
		h.Eventually("one more in line", func() bool { return h.Handler.Lines()["small"].Waiting == leaving+i+1 })
	}
	for i, l := range leavers {
		l.Leave(i%2 == 0)
	}
	h.Eventually("the line to shrink", func() bool { return h.Handler.Lines()["small"].Waiting == waiting-leaving })
	close(release)
	wg.Wait()
	h.Check()
	place := 0
	for _, g := range h.Ledger.All() {
		if strings.Contains(string(g.Body), "LEAVER") {
			t.Error("a request whose client had left reached the replica")
		}
		// Several fit at once, and those that start together arrive as it happens.
		const together = 24
		if was := slices.Index(asked, g.Nonce); was >= 0 {
			if was < place-together || was > place+together {
				t.Errorf("request %d of the line was number %d to be served", was, place)
			}
			place++
		}
	}
	if place != waiting-leaving {
		t.Errorf("%d of the line were served, want %d", place, waiting-leaving)
	}
}

// TestE8ClientStopsReading: clients that read one byte and stop are cut off;
// what is kept for them is bounded, and others are served meanwhile.
func TestE8ClientStopsReading(t *testing.T) {
	const events, size = 3200, 16 << 10
	clients := full(20, 200)
	large := strings.Repeat("B", size)
	h := faultbench.Open(t, faultbench.Options{
		Config: func(c *expediter.Config) { c.Timeouts.Write = 500 * time.Millisecond },
		Respond: func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			if g.Ask.MaxTokens == events {
				s.Text = g.Nonce + large
			}
			return s.Script()
		},
	})
	var stopped []*faultbench.Leaver
	for range clients {
		l := h.Ask(faultbench.Request{Stream: true, MaxTokens: events})
		_ = l.Conn.SetReadBuffer(4 << 10)
		if _, err := l.R.ReadByte(); err != nil {
			t.Error(err)
		}
		stopped = append(stopped, l)
	}
	if a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 100}); !a.OK() {
		t.Errorf("another client: %v, %d deltas", a.Err, a.Deltas)
	}
	h.Check()
	for _, l := range stopped {
		l.Leave(true)
	}
	stalled := 0
	for _, r := range h.Records() {
		if r.Status == expediter.StatusStalled {
			stalled++
		}
	}
	if stalled != clients {
		t.Errorf("%d of %d clients were cut off as stalled", stalled, clients)
	}
	for _, g := range h.Ledger.All() {
		if g.Ask.MaxTokens == events && g.Tokens*size > 40<<20 {
			t.Errorf("the replica sent %d bytes for a client that read one", g.Tokens*size)
		}
	}
}

// TestD5ChargeWhatWasMade: clients that leave at random pay the prompt and
// what was produced until then.
func TestD5ChargeWhatWasMade(t *testing.T) {
	const runs, together, most = 1000, 50, 40
	// Unseen: a dial may take too long where the machine is busy.
	h := faultbench.Open(t, faultbench.Options{Replicas: 2, Unseen: true, Respond: func(g *faultbench.Got) faultbench.Script {
		s := faultbench.Speak(g)
		s.Pace = 4 * time.Millisecond
		return s.Script()
	}})
	saw := make(map[string]int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range together {
		wg.Go(func() {
			for range runs / together {
				n := 1 + rand.IntN(most)
				r := faultbench.Request{Stream: true, MaxTokens: 1000}
				_, own := r.Body()
				l := h.Ask(r)
				if err := l.Deltas(n); err != nil {
					t.Error(err)
				}
				l.Leave(n%2 == 0)
				mu.Lock()
				saw[own] = n
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	h.Check()
	ledger := h.Ledger.ByID()
	var charged, sent int
	for _, r := range h.Records() {
		g := ledger[r.ID][0]
		if r.Status != expediter.StatusCancelled || r.Output < saw[g.Nonce] || r.Estimated {
			t.Fatalf("the client saw %d tokens, the record is %+v", saw[g.Nonce], r)
		}
		charged += r.Output
		sent += g.Tokens
	}
	t.Logf("%d tokens charged, %d sent by the replicas", charged, sent)
	if off := sent - charged; off > sent/100+2*runs { // one delta each may be under way, two where the machine is busy
		t.Errorf("%d tokens charged of %d that were sent", charged, sent)
	}
}

// TestD10SettleOnce: clients that leave at the very end; one record each, and
// the sums agree.
func TestD10SettleOnce(t *testing.T) {
	const together = 20
	runs := full(2000, 10_000)
	h := faultbench.Open(t, faultbench.Options{
		Replicas: 2, Unseen: true, Racing: true, // clients that leave while their request is being sent
		Config: func(c *expediter.Config) {
			c.Timeouts.FirstToken = 6 * time.Millisecond // races with the others
			c.Timeouts.Answer = 6 * time.Millisecond
			c.Retry.Burst = 1
		},
		Respond: func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			s.TTFT = 5 * time.Millisecond
			return s.Script()
		},
	})
	var wg sync.WaitGroup
	for range together {
		wg.Go(func() {
			for i := range runs / together {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond+time.Duration(rand.IntN(2000))*time.Microsecond)
				h.Do(ctx, faultbench.Request{Stream: i%2 == 0, MaxTokens: 2})
				cancel()
			}
		})
	}
	wg.Wait()
	h.Check()
	count := make(map[expediter.Status]int)
	ledger := h.Ledger.ByID()
	unheard := 0 // charged for the prompt, since they had a connection when their client left
	for _, r := range h.Records() {
		if r.Charged != 0 && len(ledger[r.ID]) == 0 {
			unheard++
			if !r.Estimated || r.Output != 0 || r.Status != expediter.StatusCancelled {
				t.Errorf("charged for what no replica got, and not marked: %+v", r)
			}
		}
		count[r.Status]++
	}
	t.Logf("%v, %d charged and never heard of", count, unheard)
	if len(count) < 2 {
		t.Errorf("statuses = %v: nothing raced", count)
	}
}
