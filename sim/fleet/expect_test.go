package fleet_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim/fleet"
)

// An answer that is longer than expected claims more room as it grows, so that
// another request waits instead of causing a preemption.
func TestLongAnswerGrowsItsLease(t *testing.T) {
	tight := steady
	tight.KVTokens = 1024
	trace := every(2, 3*time.Second, fleet.Request{Prompt: 400, Output: 400})
	r := run(t, fleet.Config{
		Replicas: fleet.Uniform(1, tight), Pool: registry.PoolConfig{Headroom: -1}, Expect: func(*fleet.Request) int { return 10 },
	}, trace)
	if r.Preemptions != 0 || r.Wait.Max < time.Second || r.Finished != 2 {
		t.Errorf("%d preemptions, longest wait %v, finished %d; want the second to wait for the first", r.Preemptions, r.Wait.Max, r.Finished)
	}
}

// A gateway claims 256 tokens for an answer of a tenant it does not know, so
// that one fills this replica; after a few answers of 10 tokens it knows
// better, for this tenant alone.
func TestGatewayLearnsOutputs(t *testing.T) {
	tight := steady
	tight.KVTokens = 480
	pairs := &fleet.Trace{}
	for i := range 40 {
		tenant := "known"
		if i >= 20 {
			tenant = "new"
		}
		at := time.Duration(i/2) * time.Second
		pairs.Requests = append(pairs.Requests, fleet.Request{At: at, Tenant: tenant, Prompt: 100, Output: 10, MaxTokens: 300})
	}
	early := run(t, fleet.Config{Replicas: fleet.Uniform(1, tight), Pool: registry.PoolConfig{Headroom: -1}}, pairs)
	// Of the first 8 of each tenant every second one waits for the one before.
	for _, tn := range early.Tenants {
		if tn.TTFT.P90 < 100*ms || tn.TTFT.P50 > 60*ms {
			t.Errorf("%s: TTFT = %v, want a few to have waited", tn.Name, tn.TTFT)
		}
	}
	if n := early.Wait.N; n != 40 || early.Wait.Mean < 8*100*ms/40 || early.Wait.Mean > 10*120*ms/40 {
		t.Errorf("wait = %v of %d, want 8 of 40 to have waited for one answer", early.Wait, n)
	}
}
