package fleet_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/sim/fleet"
)

const ms = time.Millisecond

// steady is a replica whose steps take 10 ms, and 1 ms more per 16 tokens.
var steady = sim.Profile{Name: "steady", Base: 10 * ms, Slope: ms / 16, KVTokens: 16000, MaxBatchedTokens: 1024}

func run(t *testing.T, cfg fleet.Config, trace *fleet.Trace) *fleet.Report {
	t.Helper()
	r, err := fleet.Run(cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// every returns n equal requests, one per interval.
func every(n int, interval time.Duration, r fleet.Request) *fleet.Trace {
	t := &fleet.Trace{}
	for i := range n {
		r.At = time.Duration(i) * interval
		t.Requests = append(t.Requests, r)
	}
	return t
}

func byName(t *testing.T, name string) func(uint64) *router.Router {
	t.Helper()
	return func(seed uint64) *router.Router {
		rt, err := router.ByName(name, seed)
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
}

// One request: delay, prefill of 160 tokens in 20 ms, delay; then a token per
// 10.0625 ms.
func TestTimesOfOneRequest(t *testing.T) {
	r := run(t, fleet.Config{
		Replicas: fleet.Uniform(1, steady), Delay: 3 * ms, SLO: fleet.SLO{TTFT: 26 * ms, TPOT: 10063 * time.Microsecond},
	}, every(1, 0, fleet.Request{Prompt: 160, Output: 11}))
	if r.TTFT.Max != 26*ms || r.TPOT.Max != 10062500 || r.Elapsed != 26*ms+100625*time.Microsecond || r.Wait.Max != 0 {
		t.Errorf("TTFT %v, TPOT %v, elapsed %v, wait %v", r.TTFT.Max, r.TPOT.Max, r.Elapsed, r.Wait.Max)
	}
	if r.Finished != 1 || r.Met != 1 || r.Goodput != 1 || r.InputTokens != 160 || r.OutputTokens != 11 {
		t.Errorf("report = %+v", r)
	}
	if len(r.TTFTCurve) != 101 || r.TTFTCurve[0] != 26*ms || r.TPOTCurve[100] != r.TPOT.Max {
		t.Errorf("curves = %v, %v", r.TTFTCurve, r.TPOTCurve)
	}
	late := run(t, fleet.Config{
		Replicas: fleet.Uniform(1, steady), Delay: 3 * ms, SLO: fleet.SLO{TTFT: 26*ms - 1},
	}, every(1, 0, fleet.Request{Prompt: 160, Output: 11}))
	if late.Met != 0 || late.Finished != 1 {
		t.Errorf("with a tighter objective: %d met, %d finished, want 0 and 1", late.Met, late.Finished)
	}
}

// A session asks again a while after each answer.
func TestSessions(t *testing.T) {
	trace := every(3, 0, fleet.Request{Prompt: 160, Output: 1})
	for i := 1; i < 3; i++ {
		trace.Requests[i].After, trace.Requests[i].At = i, time.Second
	}
	r := run(t, fleet.Config{Replicas: fleet.Uniform(1, steady), Delay: ms}, trace)
	if want := 3*22*ms + 2*time.Second; r.Finished != 3 || r.Elapsed != want || r.TTFT.Max != 22*ms {
		t.Errorf("finished %d, elapsed %v, TTFT %v, want 3, %v, 22ms each", r.Finished, r.Elapsed, r.TTFT, want)
	}
}

// A slow replica takes twice as long, from the start or from a moment on.
func TestSlowReplica(t *testing.T) {
	rs := fleet.Uniform(1, steady)
	rs[0].Slow = 2
	r := run(t, fleet.Config{Replicas: rs}, every(1, 0, fleet.Request{Prompt: 160, Output: 1}))
	if r.TTFT.Max != 40*ms {
		t.Errorf("TTFT = %v, want 40ms", r.TTFT.Max)
	}
	r = run(t, fleet.Config{
		Replicas: fleet.Uniform(1, steady), Changes: []fleet.Change{{At: 30 * ms, Do: fleet.Slowdown, Slow: 3}},
	}, every(2, 50*ms, fleet.Request{Prompt: 160, Output: 1}))
	if r.TTFT.Max != 60*ms || r.TTFT.P50 != 20*ms {
		t.Errorf("TTFT = %v, want 20ms and 60ms", r.TTFT)
	}
}

// The second request of a group finds the shared blocks; another adapter or
// another group does not.
func TestSharedPrefix(t *testing.T) {
	content := func(g uint64) (c []uint64) {
		for i := range uint64(4) { // 4 x 64 tokens
			c = append(c, g<<8|i)
		}
		return c
	}
	trace := &fleet.Trace{Block: 64, Requests: []fleet.Request{
		{At: 0, Prompt: 250, Output: 1, Content: content(1)},
		{At: time.Second, Prompt: 400, Output: 1, Content: content(1)},
		{At: 2 * time.Second, Prompt: 400, Output: 1, Content: content(2)},
		{At: 3 * time.Second, Prompt: 400, Output: 1, Content: content(1), Adapter: "a"},
		{At: 4 * time.Second, Prompt: 400, Output: 1, Content: content(1)},
	}}
	r := run(t, fleet.Config{Replicas: fleet.Uniform(1, steady)}, trace)
	// 250 tokens fill 15 blocks; the fifth request finds the 16 blocks that the
	// entries cover, since the second has filled the last of them.
	if r.Engines.Cached != 240+256 || r.Prefill != 250+160+400+400+144 {
		t.Errorf("%d tokens cached, %d computed", r.Engines.Cached, r.Prefill)
	}
}

// A killed replica's requests are tried elsewhere if they have no token, and
// are lost if they have.
func TestKill(t *testing.T) {
	trace := every(4, 0, fleet.Request{Prompt: 16, Output: 50})
	trace.Requests = append(trace.Requests, every(4, 0, fleet.Request{At: 0, Prompt: 160, Output: 50}).Requests...)
	for i := 4; i < 8; i++ {
		trace.Requests[i].At = 105 * ms
	}
	r := run(t, fleet.Config{
		Replicas: fleet.Uniform(2, steady), Router: byName(t, "roundrobin"),
		Changes: []fleet.Change{{At: 110 * ms, Replica: 0, Do: fleet.Kill}},
	}, trace)
	if r.Truncated != 2 || r.Retried != 2 || r.Finished != 6 || r.Failed != 0 {
		t.Errorf("truncated %d, retried %d, finished %d, failed %d, want 2, 2, 6, 0", r.Truncated, r.Retried, r.Finished, r.Failed)
	}
	if r.Replicas[1].Requests != 6 {
		t.Errorf("the replica that lives got %d requests, want 4 and 2 retried", r.Replicas[1].Requests)
	}
}

// A dead replica is ejected after a few refusals and gets its share again once
// it is back, with an empty cache.
func TestRestart(t *testing.T) {
	shared := fleet.Request{Prompt: 320, Output: 2}
	for i := range uint64(20) {
		shared.Content = append(shared.Content, i+1)
	}
	trace := every(600, 50*ms, shared) // 30 s
	cfg := fleet.Config{
		Replicas: fleet.Uniform(2, steady), Router: byName(t, "roundrobin"), Delay: ms,
		Changes: []fleet.Change{{At: 5 * time.Second, Do: fleet.Kill}, {At: 8 * time.Second, Do: fleet.Start}},
	}
	r := run(t, cfg, trace)
	if r.Finished != 600 || r.Retried < 1 || r.Retried > 10 {
		t.Errorf("finished %d, retried %d, want all 600 and a few", r.Finished, r.Retried)
	}
	if n := r.Replicas[0].Requests; n < 150 || n > 290 {
		t.Errorf("the restarted replica got %d requests, want its share but for the time it was away", n)
	}
	calm := cfg
	calm.Changes = nil
	quiet := run(t, calm, trace)
	if r.Prefill != quiet.Prefill+304 {
		t.Errorf("%d tokens computed with a restart, %d without, want 304 more: the cache is empty once", r.Prefill, quiet.Prefill)
	}
	if off := r.Predicted - int(r.Engines.Cached); off < 0 || off > r.Retried*304 {
		t.Errorf("%d tokens expected in caches, %d found: want no more than were lost with the retried requests", r.Predicted, r.Engines.Cached)
	}
}

// A failure now and then, with successes in between, ejects nobody.
func TestBlips(t *testing.T) {
	cfg := fleet.Config{Replicas: fleet.Uniform(2, steady), Router: byName(t, "roundrobin"), FirstToken: 150 * ms}
	for i := range 10 {
		at := time.Duration(i)*time.Second + 205*ms
		cfg.Changes = append(cfg.Changes, fleet.Change{At: at, Do: fleet.Hang}, fleet.Change{At: at + 160*ms, Do: fleet.Resume})
	}
	r := run(t, cfg, every(200, 50*ms, fleet.Request{Prompt: 1000, Output: 1})) // 72.5 ms each
	if r.Retried < 5 || r.Replicas[0].Requests < 95 {
		t.Errorf("retried %d, %d requests on the replica that blips, want most of 10 and half of all", r.Retried, r.Replicas[0].Requests)
	}
}

// Probes find a dead replica before requests do.
func TestProbes(t *testing.T) {
	r := run(t, fleet.Config{
		Replicas: fleet.Uniform(2, steady), Router: byName(t, "roundrobin"), Scrape: 100 * ms,
		Pool:    registry.PoolConfig{StaleAfter: time.Hour},
		Changes: []fleet.Change{{At: 45 * time.Second, Do: fleet.Kill}},
	}, every(10, 20*time.Second, fleet.Request{Prompt: 16, Output: 1}))
	if r.Retried != 0 || r.Finished != 10 {
		t.Errorf("retried %d, finished %d, want 0 and 10", r.Retried, r.Finished)
	}
}

// A hung engine answers its probes; requests get away from it by time-out.
func TestHang(t *testing.T) {
	trace := every(40, 100*ms, fleet.Request{Prompt: 160, Output: 20})
	r := run(t, fleet.Config{
		Replicas: fleet.Uniform(2, steady), Router: byName(t, "leastrequest"), FirstToken: 2 * time.Second, Silence: 2 * time.Second,
		Changes: []fleet.Change{{At: 1050 * ms, Replica: 1, Do: fleet.Hang}, {At: time.Minute, Replica: 1, Do: fleet.Resume}},
	}, trace)
	if r.Finished+r.Truncated != 40 || r.Truncated > 3 || r.Retried == 0 {
		t.Errorf("finished %d, truncated %d, retried %d", r.Finished, r.Truncated, r.Retried)
	}
	if r.TTFT.Max < 2*time.Second || r.TTFT.P50 > 100*ms {
		t.Errorf("TTFT = %v, max %v: want some to have waited for the time-out", r.TTFT, r.TTFT.Max)
	}
}

// A replica that joins gets requests, one that leaves gets no more.
func TestJoinAndLeave(t *testing.T) {
	rs := fleet.Uniform(3, steady)
	rs[1].Leave = 10 * time.Second
	rs[2].Join = 20 * time.Second
	r := run(t, fleet.Config{Replicas: rs, Router: byName(t, "roundrobin")}, every(300, 100*ms, fleet.Request{Prompt: 16, Output: 1}))
	got := []int{r.Replicas[0].Requests, r.Replicas[1].Requests, r.Replicas[2].Requests}
	for i, want := range []int{200, 50, 50} {
		if got[i] < want-2 || got[i] > want+2 {
			t.Errorf("requests per replica = %v, want about 200, 50, 50", got)
			break
		}
	}
	if r.Finished != 300 {
		t.Errorf("finished %d of 300", r.Finished)
	}
}

// A tenant over its quota is turned away; others are not.
func TestQuota(t *testing.T) {
	trace := every(100, 10*ms, fleet.Request{Prompt: 90, Output: 10, Tenant: "a"})
	for i := range trace.Requests {
		if i%2 == 1 {
			trace.Requests[i].Tenant = "b"
		}
	}
	r := run(t, fleet.Config{
		Replicas: fleet.Uniform(4, steady),
		Tenant: func(name string) fleet.Tenant {
			if name == "b" {
				return fleet.Tenant{}
			}
			return fleet.Tenant{Limit: quota.Limit{Windows: []quota.Window{{Name: "m", Rate: 0, Burst: 1000}}}}
		},
	}, trace)
	a, b := r.Tenants[0], r.Tenants[1]
	if a.Finished != 10 || a.Shed != 40 || b.Finished != 50 || r.OverQuota != 40 {
		t.Errorf("a: %d finished, %d shed; b: %d finished; want 10, 40, 50", a.Finished, a.Shed, b.Finished)
	}
	if a.Service != 10*(90+2*10) {
		t.Errorf("service of a = %v", a.Service)
	}
}

// Under overload the upper tier does not wait behind the lower one.
func TestTiers(t *testing.T) {
	trace := every(400, 5*ms, fleet.Request{Prompt: 1000, Output: 50, Tenant: "batch"})
	for i := range trace.Requests {
		if i%10 == 0 {
			trace.Requests[i].Tenant = "urgent"
		}
	}
	r := run(t, fleet.Config{
		Replicas: fleet.Uniform(1, steady), MaxWait: 5 * time.Second,
		Tenant: func(name string) fleet.Tenant {
			if name == "batch" {
				return fleet.Tenant{Tier: 1}
			}
			return fleet.Tenant{}
		},
	}, trace)
	batch, urgent := r.Tenants[0], r.Tenants[1]
	if urgent.Finished != urgent.Requests || batch.Shed == 0 || urgent.TTFT.P99 >= batch.TTFT.P50 {
		t.Errorf("urgent: %d of %d, TTFT %v; batch: %d shed, TTFT %v", urgent.Finished, urgent.Requests, urgent.TTFT, batch.Shed, batch.TTFT)
	}
}

// Leases keep the engines from preempting; sent at once, the same requests
// overflow the caches.
func TestDirectOverflowsTheCache(t *testing.T) {
	tight := steady
	tight.KVTokens = 4000
	trace := every(100, 20*ms, fleet.Request{Prompt: 200, Output: 400})
	leased := run(t, fleet.Config{
		Replicas: fleet.Uniform(2, tight), MaxWait: time.Hour, Expect: func(r *fleet.Request) int { return r.Output },
	}, trace)
	direct := run(t, fleet.Config{Replicas: fleet.Uniform(2, tight), Direct: true}, trace)
	if leased.Preemptions != 0 || leased.Finished != 100 || leased.Wait.Max == 0 {
		t.Errorf("with leases: %d preemptions, %d finished, wait %v", leased.Preemptions, leased.Finished, leased.Wait)
	}
	if direct.Preemptions == 0 || direct.Wait.Max != 0 || direct.Finished != 100 || direct.KVPeak < 0.95 {
		t.Errorf("direct: %d preemptions, %d finished, wait %v, peak %.2f", direct.Preemptions, direct.Finished, direct.Wait, direct.KVPeak)
	}
}

// Rules that know the caches hit more than one that does not, and a fleet is
// worse off when several gateways do not know of each other.
func TestRulesDiffer(t *testing.T) {
	if fleet.Raced {
		t.Skip("is about policies, not about memory")
	}
	trace := busy(30, 10*time.Second)
	hits := map[string]float64{}
	for _, name := range router.Names() {
		r := run(t, fleet.Config{Replicas: fleet.Uniform(4, sim.Llama8BA100()), Router: byName(t, name)}, trace)
		if r.Finished != r.Requests {
			t.Errorf("%s: %d of %d finished", name, r.Finished, r.Requests)
		}
		hits[name] = r.HitRate
	}
	for _, name := range []string{"marginal", "sticky", "chwbl"} {
		if hits[name] < hits["roundrobin"]+0.05 {
			t.Errorf("%s hits %.3f, round robin %.3f: want at least 0.05 more", name, hits[name], hits["roundrobin"])
		}
	}
}

func TestScrapeAge(t *testing.T) {
	if fleet.Raced {
		t.Skip("is about policies, not about memory")
	}
	old := map[time.Duration]time.Duration{}
	for _, age := range []time.Duration{0, 3 * time.Second} {
		r := run(t, fleet.Config{
			Replicas: fleet.Uniform(8, sim.Llama8BA100()), Router: byName(t, "blend"), MetricAge: age, Scrape: 100 * ms, Direct: true,
		}, busy(60, 30*time.Second))
		old[age] = r.TTFT.P99
	}
	if old[3*time.Second]*2 < 3*old[0] {
		t.Errorf("a rule that goes by metrics has a TTFT p99 of %v with fresh ones and %v with old ones", old[0], old[3*time.Second])
	}
}

func TestMistakes(t *testing.T) {
	tests := []struct {
		name  string
		cfg   fleet.Config
		trace *fleet.Trace
		want  string
	}{
		{"no replicas", fleet.Config{}, &fleet.Trace{}, "replicas"},
		{"nobody at the start", fleet.Config{Replicas: []fleet.Replica{{Profile: steady, Join: 1}}}, &fleet.Trace{}, "from the start"},
		{"leave before join", fleet.Config{Replicas: []fleet.Replica{{Profile: steady}, {Profile: steady, Join: 2, Leave: 1}}}, &fleet.Trace{}, "before it joins"},
		{"change of nobody", fleet.Config{Replicas: fleet.Uniform(1, steady), Changes: []fleet.Change{{Replica: 1}}}, &fleet.Trace{}, "no replica 1"},
		{"profile", fleet.Config{Replicas: fleet.Uniform(1, sim.Profile{})}, every(1, 0, fleet.Request{Prompt: 1, Output: 1}), "replica 0"},
		{"pool", fleet.Config{Replicas: fleet.Uniform(1, steady), Pool: registry.PoolConfig{Headroom: 2}}, every(1, 0, fleet.Request{Prompt: 1, Output: 1}), "headroom"},
		{"same name", fleet.Config{Replicas: []fleet.Replica{{Name: "a", Profile: steady}, {Name: "a", Profile: steady}}}, &fleet.Trace{}, "two are called"},
		{"prompt", fleet.Config{Replicas: fleet.Uniform(1, steady)}, &fleet.Trace{Requests: []fleet.Request{{Output: 1}}}, "request 0: prompt"},
		{"order", fleet.Config{Replicas: fleet.Uniform(1, steady)}, &fleet.Trace{Requests: []fleet.Request{{At: 1, Prompt: 1, Output: 1}, {Prompt: 1, Output: 1}}}, "request 1: time"},
		{"waits for itself", fleet.Config{Replicas: fleet.Uniform(1, steady)}, &fleet.Trace{Requests: []fleet.Request{{Prompt: 1, Output: 1, After: 1}}}, "it waits for request 0"},
		{"limit", fleet.Config{Replicas: fleet.Uniform(1, steady)}, &fleet.Trace{Requests: []fleet.Request{{Prompt: 1, Output: 3, MaxTokens: 2}}}, "max tokens"},
	}
	for _, tt := range tests {
		if _, err := fleet.Run(tt.cfg, tt.trace); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error = %v, want one that says %q", tt.name, err, tt.want)
		}
	}
}

func TestWorkload(t *testing.T) {
	wl := fleet.Workload{
		Rate: 200, Duration: 100 * time.Second, Burst: 0.8, Groups: 10, Zipf: 1, Shared: 160, Prompt: 100, Output: 50, Spread: 0.5,
		Tenants: 3, TenantZipf: 1, Adapters: 4,
	}
	tr := wl.Trace(3)
	if err := tr.Validate(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(tr, wl.Trace(3)) || reflect.DeepEqual(tr, wl.Trace(4)) {
		t.Error("the trace does not follow from the seed")
	}
	var prompt, output, first int
	perGroup := map[uint64]int{}
	for _, r := range tr.Requests {
		prompt += r.Prompt
		output += r.Output
		perGroup[r.Content[0]]++
		if r.Tenant == "tenant-0" {
			first++
		}
	}
	n := float64(len(tr.Requests))
	near := func(what string, got, want, by float64) {
		if got < want*(1-by) || got > want*(1+by) {
			t.Errorf("%s = %.3f, want about %.3f", what, got, want)
		}
	}
	near("requests", n, 20000, 0.08)
	near("mean prompt", float64(prompt)/n, 260, 0.03)
	near("mean output", float64(output)/n, 50, 0.03)
	near("share of the first tenant", float64(first)/n, 1/(1+1./2+1./3), 0.05)
	near("share of the first group", float64(perGroup[1<<40])/n, 1/2.929, 0.05)
	if half := tr.Speed(2); half.Duration() != tr.Duration()/2 || len(half.Requests) != len(tr.Requests) {
		t.Errorf("at double speed the trace lasts %v of %v", half.Duration(), tr.Duration())
	}
}

// Prompts that are asked again are hit whole but for the last block.
func TestAskedAgain(t *testing.T) {
	tr := fleet.Workload{Rate: 20, Duration: 10 * time.Second, Groups: 2, Shared: 160, Asked: 3, Prompt: 160, Output: 1}.Trace(1)
	r := run(t, fleet.Config{Replicas: fleet.Uniform(1, steady)}, tr)
	// 6 different prompts of 320 tokens; of each later one all but 16 are hits.
	if want := len(tr.Requests)*16 + 6*304 - 4*160; r.Prefill != want {
		t.Errorf("%d tokens computed for %d requests, want %d", r.Prefill, len(tr.Requests), want)
	}
}

func TestJitter(t *testing.T) {
	tr := every(100, 10*ms, fleet.Request{Prompt: 16, Output: 1})
	for i := 50; i < 100; i++ {
		tr.Requests[i].After, tr.Requests[i].Tenant = i-49, "follower"
		tr.Requests[i-50].Prompt = i - 49
		tr.Requests[i].Prompt = i - 49
	}
	moved := tr.Jitter(100*ms, 1)
	if err := moved.Validate(); err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(tr.Requests, moved.Requests) || !reflect.DeepEqual(moved, tr.Jitter(100*ms, 1)) {
		t.Error("the moves do not follow from the seed")
	}
	for _, r := range moved.Requests {
		if r.Tenant == "follower" && moved.Requests[r.After-1].Prompt != r.Prompt {
			t.Fatalf("%+v follows %+v", r, moved.Requests[r.After-1])
		}
	}
}

// busy is the reference shape: 1,760 tokens in and 300 out, most of the prompt
// shared by a tenant.
func busy(rate float64, d time.Duration) *fleet.Trace {
	return fleet.Workload{
		Rate: rate, Duration: d, Groups: 200, Zipf: 1, Shared: 1536, Prompt: 224, Output: 300, Spread: 0.4, Tenants: 20, TenantZipf: 1,
	}.Trace(1)
}

// BenchmarkFleet64Replicas60s is a fleet near its limit, at three lengths of
// traffic to show that the cost grows with the simulated tokens.
func BenchmarkFleet64Replicas60s(b *testing.B) {
	for _, d := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute} {
		trace := busy(500, d)
		b.Run(d.String(), func(b *testing.B) {
			b.ReportAllocs()
			tokens := 0
			for b.Loop() {
				r, err := fleet.Run(fleet.Config{Replicas: fleet.Uniform(64, sim.Llama8BA100())}, trace)
				if err != nil || r.Finished != r.Requests {
					b.Fatal(err, r)
				}
				tokens = r.Prefill + r.OutputTokens
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tokens), "ns/token")
		})
	}
}
