package fleet_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim/fleet"
)

// never rules every replica out for prompts of more than its tokens.
type never int

func (n never) Score(cost []float64, req *router.Request, _ []*registry.Replica) {
	if req.Prompt <= int(n) {
		return
	}
	for i := range cost {
		cost[i] = router.Never
	}
}

// A request that no replica can serve fails at once instead of waiting, and
// the report says why.
func TestFailuresByReason(t *testing.T) {
	leaves := fleet.Uniform(1, steady)
	leaves[0].Leave = 1500 * ms
	tests := []struct {
		name  string
		cfg   fleet.Config
		trace *fleet.Trace
		want  fleet.Report // its counts of failures
		line  string
	}{
		{"a scorer says never", fleet.Config{
			Replicas: fleet.Uniform(2, steady),
			Router: func(uint64) *router.Router {
				return router.New(router.Config{Scorers: append(router.Default(), never(100))})
			},
		}, &fleet.Trace{Requests: []fleet.Request{{Prompt: 100, Output: 1}, {At: time.Second, Prompt: 101, Output: 1}, {At: 2 * time.Second, Prompt: 200, Output: 1}}},
			fleet.Report{Finished: 1, Failed: 2, RuledOut: 2}, "failed 2 (2 ruled out by scorers), truncated 0"},
		{"all have left", fleet.Config{Replicas: leaves}, every(3, time.Second, fleet.Request{Prompt: 16, Output: 1}),
			fleet.Report{Finished: 2, Failed: 1, NoReplica: 1}, "failed 1 (1 no replica to use), truncated 0"},
		{"larger than the cache", fleet.Config{Replicas: fleet.Uniform(1, steady)},
			&fleet.Trace{Requests: []fleet.Request{{At: time.Second, Prompt: 16001, Output: 1}}},
			fleet.Report{Failed: 1, TooLarge: 1}, "failed 1 (1 too large), truncated 0"},
		{"killed in the prefill", fleet.Config{
			Replicas: fleet.Uniform(2, steady), Attempts: 1, Changes: []fleet.Change{{At: 1010 * ms, Do: fleet.Kill}, {At: 1010 * ms, Replica: 1, Do: fleet.Kill}},
		}, every(2, time.Second, fleet.Request{Prompt: 160, Output: 1}),
			fleet.Report{Finished: 1, Failed: 1, Broken: 1}, "failed 1 (1 all attempts broke), truncated 0"},
		{"killed in the prefill, no other is left", fleet.Config{
			Replicas: fleet.Uniform(1, steady), Changes: []fleet.Change{{At: 1010 * ms, Do: fleet.Kill}},
		}, every(2, time.Second, fleet.Request{Prompt: 160, Output: 1}),
			fleet.Report{Finished: 1, Failed: 1, NoReplica: 1}, "failed 1 (1 no replica to use), truncated 0"},
		{"none", fleet.Config{Replicas: fleet.Uniform(1, steady)}, every(1, 0, fleet.Request{Prompt: 16, Output: 1}),
			fleet.Report{Finished: 1}, "failed 0, truncated 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, tt.cfg, tt.trace)
			got := fleet.Report{
				Finished: r.Finished, Failed: r.Failed, RuledOut: r.RuledOut, NoReplica: r.NoReplica, TooLarge: r.TooLarge, Broken: r.Broken,
			}
			if !reflect.DeepEqual(got, tt.want) || r.Wait.Max != 0 {
				t.Errorf("report =\n%vwant\n%vand nobody to have waited, waited %v", &got, &tt.want, r.Wait.Max)
			}
			if first, _, _ := strings.Cut(r.String(), "\n"); !strings.HasSuffix(first, ", "+tt.line) {
				t.Errorf("first line = %q, want it to end in %q", first, tt.line)
			}
		})
	}
}

// A rate of requests that come all at once is that of their answers.
func TestGoodRateOfOneMoment(t *testing.T) {
	r := run(t, fleet.Config{Replicas: fleet.Uniform(1, steady)}, every(1, 0, fleet.Request{Prompt: 160, Output: 1}))
	if r.Elapsed != 20*ms || r.GoodRate != 50 {
		t.Errorf("GoodRate = %v after %v, want 50 after 20ms", r.GoodRate, r.Elapsed)
	}
}

// The trace of a workload that is not valid says so, whatever is done with it.
func TestTraceOfBadWorkload(t *testing.T) {
	cfg := fleet.Config{Replicas: fleet.Uniform(1, steady)}
	tests := []struct {
		name  string
		trace *fleet.Trace
		want  string
	}{
		{"zero", fleet.Workload{}.Trace(1), "fleet: workload: rate is 0, want more than 0\nfleet: workload: duration is 0s, want more than 0"},
		{"no duration", fleet.Workload{Rate: 1}.Trace(1), "fleet: workload: duration is 0s, want more than 0"},
		{"negative rate", fleet.Workload{Rate: -1, Duration: time.Second}.Trace(1), "fleet: workload: rate is -1, want more than 0"},
		{"at another speed", fleet.Workload{Rate: 1}.Trace(1).Speed(2), "fleet: workload: duration is 0s, want more than 0"},
		{"moved", fleet.Workload{Rate: 1}.Trace(1).Jitter(time.Second, 1), "fleet: workload: duration is 0s, want more than 0"},
		{"too short for a request", fleet.Workload{Rate: 1, Duration: 1}.Trace(1), "fleet: trace: it has no requests"},
		{"empty", &fleet.Trace{}, "fleet: trace: it has no requests"},
	}
	for _, tt := range tests {
		if r, err := fleet.Run(cfg, tt.trace); err == nil || err.Error() != tt.want || r != nil {
			t.Errorf("%s: Run = %v, %v, want the error %q", tt.name, r, err, tt.want)
		}
	}
}
