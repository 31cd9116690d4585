package faultbench_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
)

// TestD5WhoPays: what each way to end costs, of a prompt that the engine
// counts as 7 tokens. A count of the gateway's own is marked.
func TestD5WhoPays(t *testing.T) {
	part := func(n int, end faultbench.End) func(*faultbench.Got) faultbench.Script {
		return func(g *faultbench.Got) faultbench.Script {
			sc := faultbench.Stream(faultbench.Speak(g).Deltas(n)...)
			sc.End = end
			return sc
		}
	}
	role := func(g *faultbench.Got) faultbench.Script {
		sc := faultbench.Stream(faultbench.Speak(g).Role())
		sc.End = faultbench.Stall
		return sc
	}
	fixed := func(sc faultbench.Script) func(*faultbench.Got) faultbench.Script {
		return func(*faultbench.Got) faultbench.Script { return sc }
	}
	const own = -1 // the gateway's own count of the prompt
	for _, tc := range []struct {
		name    string
		respond func(*faultbench.Got) faultbench.Script
		leave   int // deltas after which the client leaves; -1: it stays
		status  expediter.Status
		charged int64
	}{
		{"complete", func(g *faultbench.Got) faultbench.Script { return faultbench.Speak(g).Script() }, -1, expediter.StatusOK, 16},
		{"refused by the engine", fixed(faultbench.JSON(400, []byte(`{"error":{"message":"no","code":400}}`), 0)), -1, expediter.StatusRefused, 0},
		{"failed", fixed(faultbench.JSON(500, []byte(`{}`), 0)), -1, expediter.StatusFailed, 0},
		{"no token in time", role, -1, expediter.StatusFailed, 0},
		{"no head in time", fixed(faultbench.Script{End: faultbench.Silent}), -1, expediter.StatusFailed, 0},
		{"broke after tokens", part(4, faultbench.RST), -1, expediter.StatusTruncated, 11},
		{"silent after tokens", part(4, faultbench.Stall), -1, expediter.StatusTruncated, 11},
		{"left before the head", fixed(faultbench.Script{End: faultbench.Silent}), 0, expediter.StatusCancelled, own},
		{"left before a token", role, 0, expediter.StatusCancelled, 7},
		{"left after tokens", part(4, faultbench.Stall), 4, expediter.StatusCancelled, 11},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := ended(t, tc.respond, tc.leave)
			want := tc.charged
			if want == own {
				want = int64(rec.Input)
			}
			// A role chunk that is on its way as the client leaves may be missed.
			missed := tc.name == "left before a token" && rec.Estimated && rec.Charged == int64(rec.Input)
			if rec.Status != tc.status || rec.Charged != want && !missed || (tc.charged == own) != rec.Estimated && !missed || tc.charged == own && want == 0 {
				t.Errorf("record = %+v, want %s and a charge of %d", rec, tc.status, tc.charged)
			}
		})
	}
}

// ended makes one request and returns its record. The client leaves after some
// deltas, unless leave is below zero.
func ended(t *testing.T, respond func(*faultbench.Got) faultbench.Script, leave int) expediter.Record {
	t.Helper()
	h := faultbench.Open(t, faultbench.Options{Respond: respond, Config: func(c *expediter.Config) {
		c.Retry.Attempts = 1
		if leave < 0 {
			c.Timeouts.FirstToken, c.Timeouts.Silence = time.Second, time.Second
		}
	}})
	r := faultbench.Request{Stream: true, MaxTokens: 9}
	if leave < 0 {
		h.Do(t.Context(), r)
	} else {
		l := h.Ask(r)
		h.Eventually("the request at the replica", func() bool { return h.Replicas[0].Running() == 1 })
		if err := l.Deltas(leave); err != nil {
			t.Error(err)
		}
		l.Leave(false)
	}
	h.Check()
	return h.Records()[0]
}
