package faultbench_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/expediterhq/expediter/internal/faultbench"
)

// TestF12PoisonBehindAFront: a request that takes down every engine that gets it
// takes two at most, also where each is started again at once and something before
// it goes on accepting connections. One of them may go down twice.
func TestF12PoisonBehindAFront(t *testing.T) {
	for _, tc := range []struct {
		name string
		warm bool
		out  bool // who goes down is taken out of rotation, so that the next try is on another
	}{
		{"F12 fresh connections", false, false},
		{"F12 kept connections", true, false},
		{"F12 kept connections, out of rotation", true, true},
	} {
		t.Run(tc.name, func(t *testing.T) { poisonBehindAFront(t, tc.warm, tc.out) })
	}
}

func poisonBehindAFront(t *testing.T, warm, out bool) {
	var h *faultbench.House
	var deaths [8]atomic.Int32
	h = faultbench.Open(t, faultbench.Options{
		Replicas: len(deaths), Unseen: true,
		Replica: func(i int, r *faultbench.Replica) {
			r.Respond = func(g *faultbench.Got) faultbench.Script {
				if !strings.Contains(string(g.Body), "POISON") {
					return faultbench.Speak(g).Script()
				}
				deaths[i].Add(1)
				if out {
					h.Members[i].Drain()
				}
				r.ResetCounters() // another process
				r.CutAll()        // the listener lives on
				return faultbench.Script{End: faultbench.DropRST}
			}
		},
	})
	for _, m := range h.Members {
		h.Eventually("a report", func() bool { return m.State() != nil })
	}
	if warm {
		harmless(t, h)
	}
	body, _ := (&faultbench.Request{Stream: true, MaxTokens: 5, Text: "POISON"}).Body()
	var last faultbench.Answer
	for range 3 {
		last = h.Send(t.Context(), "/v1/chat/completions", strings.NewReader(body), nil, nil)
		harmless(t, h)
	}
	if last.Code != "request_crashes_engine" {
		t.Errorf("at last: status %d: %s", last.Status, last.Body)
	}
	down := 0
	for i := range deaths {
		if deaths[i].Load() > 0 {
			down++
		}
	}
	if down > 2 {
		t.Errorf("%d replicas went down, want at most 2", down)
	}
}
