package trace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/sim/fleet"
	"github.com/expediterhq/expediter/sim/trace"
)

// leastUncached sends a request where the fewest tokens of prompt are left to compute.
type leastUncached struct{}

func (leastUncached) Score(cost []float64, req *router.Request, replicas []*registry.Replica) {
	for i, r := range replicas {
		cost[i] += float64(req.Uncached(r) + req.Load(i, r).Prefill)
	}
}

func TestLeastUncached(t *testing.T) {
	chat, err := trace.Open("testdata/chat.jsonl", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := fleet.Run(fleet.Config{
		Replicas: fleet.Uniform(3, sim.Llama8BA100()),
		Router: func(uint64) *router.Router {
			return router.New(router.Config{Scorers: []router.Scorer{leastUncached{}}})
		},
		SLO: fleet.SLO{TTFT: 500 * time.Millisecond, TPOT: 50 * time.Millisecond},
	}, chat.Trace)
	if err != nil {
		t.Fatal(err)
	}
	if report.Goodput < 0.99 || report.HitRate < 0.65 || report.ShedRate > 0 || report.Preemptions > 0 {
		t.Errorf("not good enough:\n%v", report)
	}
}

// The guide shows the test above as it is, and it stays below 20 lines.
func TestGuideShowsTheTest(t *testing.T) {
	code, err := os.ReadFile("rule_test.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "simulator.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, start := range []string{"type leastUncached ", "func (leastUncached) ", "func TestLeastUncached("} {
		_, rest, _ := strings.Cut(string(code), "\n"+start)
		body, _, _ := strings.Cut(rest, "\n}\n")
		if lines := strings.Count(body, "\n") + 2; lines >= 20 {
			t.Errorf("%s has %d lines", start, lines)
		}
		body, _, _ = strings.Cut(start+body, "\n\n")
		if !strings.Contains(string(guide), body) {
			t.Errorf("docs/simulator.md does not show %s as it is", start)
		}
	}
}
