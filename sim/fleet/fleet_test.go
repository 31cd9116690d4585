package fleet_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/sim/fleet"
)

// busy is the reference shape: 1,760 tokens in and 300 out, most of the prompt
// shared by a tenant.
func busy(rate float64, d time.Duration) *fleet.Trace {
	return fleet.Workload{
		Rate: rate, Duration: d, Groups: 200, Zipf: 1, Shared: 1536, Prompt: 224, Output: 300, Spread: 0.4, Tenants: 20, TenantZipf: 1,
	}.Trace(1)
}

func TestRunAll(t *testing.T) {
	start := time.Now()
	r, err := fleet.Run(fleet.Config{
		Replicas: fleet.Uniform(64, sim.Llama8BA100()),
		SLO:      fleet.SLO{TTFT: time.Second, TPOT: 60 * time.Millisecond},
	}, busy(500, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v\n%v", time.Since(start), r)
	if r.Requests != r.Finished {
		t.Error("not all finished")
	}
}
