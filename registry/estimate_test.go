package registry_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

func lease(t testing.TB, r *registry.Replica, c registry.Claim, after time.Duration) registry.Lease {
	t.Helper()
	l, ok := r.LeaseAt(c, at(after))
	if !ok {
		t.Fatalf("Lease(%+v) refused", c)
	}
	return l
}

func TestEstimate(t *testing.T) {
	claim := registry.Claim{Prefill: 1000, KV: 1300, Context: 1150}
	tests := []struct {
		name    string
		leases  int             // taken before the report
		ended   int             // of those, released after it
		report  *registry.State // received at 0
		after   time.Duration   // of the question
		want    registry.Load
		unknown bool
	}{
		{
			name: "never reported", leases: 2,
			want: registry.Load{Requests: 2, Prefilling: 2, Prefill: 2000, KV: 2600, Context: 2300}, unknown: true,
		},
		{
			name: "only ours", leases: 2,
			report: &registry.State{Running: 1, Waiting: 1, KVUsage: 0.01, KVTokens: 100_000},
			want:   registry.Load{Requests: 2, Prefilling: 2, Prefill: 2000, KV: 2600, Context: 2300},
		},
		{
			name: "a burst that the gauges do not show yet", leases: 20,
			report: &registry.State{KVTokens: 100_000},
			want:   registry.Load{Requests: 20, Prefilling: 20, Prefill: 20_000, KV: 26_000, Context: 23_000},
		},
		{
			name: "others are there too", leases: 1,
			report: &registry.State{Running: 4, Waiting: 3, KVUsage: 0.05, KVTokens: 100_000},
			// 7 in the engine, 1 ours: 6 of others, 2 of them waiting.
			want: registry.Load{Requests: 7, Prefilling: 3, Prefill: 3000, KV: 5000, Context: 7 * 1150},
		},
		{
			name: "ours ended since, others stay", leases: 2, ended: 2,
			report: &registry.State{Running: 5, KVUsage: 0.05, KVTokens: 100_000},
			want:   registry.Load{Requests: 3, KV: 2400, Context: 3 * 1150},
		},
		{
			name:   "the waiting prompts of others are computed meanwhile",
			leases: 1, ended: 1, after: 150 * time.Millisecond,
			report: &registry.State{Waiting: 3},
			// 2,000 tokens waited, 10,000 a second are computed.
			want: registry.Load{Requests: 2, Prefilling: 2, Prefill: 500, Context: 2300},
		},
		{
			name:   "nobody here, sized by the engine's own mean",
			report: &registry.State{Running: 4, Waiting: 2, KVUsage: 0.04, KVTokens: 100_000},
			want:   registry.Load{Requests: 6, Prefilling: 2, Prefill: 1000, KV: 4000, Context: 6000},
		},
		{
			name: "stale", leases: 1, after: 5*time.Second + 1,
			report: &registry.State{Running: 50, Waiting: 50, KVUsage: 0.9, KVTokens: 100_000},
			want:   registry.Load{Requests: 1, Prefilling: 1, Prefill: 1000, KV: 1300, Context: 1150}, unknown: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReplica(t, registry.PoolConfig{})
			var out []registry.Lease
			for range tt.leases {
				out = append(out, lease(t, r, claim, 0))
			}
			if tt.report != nil {
				tt.report.At = t0
				r.Report(*tt.report)
			}
			for i := range tt.ended {
				out[i].Release()
			}
			if got := r.Estimate(at(tt.after)); got != tt.want {
				t.Errorf("Estimate = %+v, want %+v", got, tt.want)
			}
			if got := r.Fresh(at(tt.after)); got == tt.unknown {
				t.Errorf("Fresh = %v, want %v", got, !tt.unknown)
			}
			var v registry.View
			if !r.View(&v, at(tt.after)) || v.Load != tt.want || v.Fresh == tt.unknown || v.Reported != (tt.report != nil) {
				t.Errorf("View = %+v, want the same", v)
			}
		})
	}
}

func TestReportSinceIgnoresWhatEndedMeanwhile(t *testing.T) {
	r := newReplica(t, registry.PoolConfig{})
	l := lease(t, r, registry.Claim{KV: 500, Prefill: 100}, 0)
	asked := r.Load()
	l.Release()
	r.ReportSince(registry.State{At: t0, Running: 1, KVUsage: 0.5, KVTokens: 1000}, asked)
	if got := r.Estimate(t0); got != (registry.Load{}) {
		t.Errorf("Estimate = %+v, want zero: the request seen was ours and is over", got)
	}
}

func TestLeaseCountsOthers(t *testing.T) {
	r := newReplica(t, registry.PoolConfig{Headroom: 0.2})
	r.Report(registry.State{At: t0, Running: 3, KVUsage: 0.5, KVTokens: 1000})
	if _, ok := r.LeaseAt(registry.Claim{KV: 301}, t0); ok {
		t.Error("301 granted beside 500 of others with 800 usable")
	}
	if _, ok := r.LeaseAt(registry.Claim{KV: 300}, t0); !ok {
		t.Error("300 refused beside 500 of others with 800 usable")
	}
	if _, ok := r.LeaseAt(registry.Claim{KV: 500}, at(time.Minute)); !ok {
		t.Error("a stale report kept room from a claim")
	}
}

func TestRestartIsSeenInCounters(t *testing.T) {
	before := registry.State{At: t0, Steps: 100, GeneratedTokens: 5000, PromptTokens: 9000, Preemptions: 2, KVTokens: 1000, MaxLoRA: 4}
	tests := []struct {
		name      string
		change    func(*registry.State)
		restarted bool
	}{
		{"all equal", func(*registry.State) {}, false},
		{"all grow", func(s *registry.State) { s.Steps++; s.GeneratedTokens++; s.PromptTokens++; s.Preemptions++ }, false},
		{"steps", func(s *registry.State) { s.Steps = 3 }, true},
		{"generated", func(s *registry.State) { s.GeneratedTokens = 0 }, true},
		{"prompt", func(s *registry.State) { s.PromptTokens = 8999 }, true},
		{"preemptions", func(s *registry.State) { s.Preemptions = 0 }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReplica(t, registry.PoolConfig{})
			r.Report(before)
			lease(t, r, registry.Claim{Adapter: "x"}, 0)
			gen := r.Generation()
			s := before
			s.At = at(sec)
			tt.change(&s)
			r.Report(s)
			if got := r.Generation() > gen; got != tt.restarted {
				t.Errorf("new generation: %v, want %v", got, tt.restarted)
			}
			if got := r.Holds("x"); got == tt.restarted {
				t.Errorf("Holds = %v after restart %v", got, tt.restarted)
			}
			if got := r.State(); got.At != s.At || got.Steps != s.Steps {
				t.Errorf("State = %+v, want the new report", got)
			}
		})
	}
}

func TestRestartEndsThePause(t *testing.T) {
	r := newPool(t, 4, registry.PoolConfig{}).Replicas()[0]
	gen := r.Generation()
	fail(r, 3, 0)
	r.SetProbe(false, at(0))
	r.Restarted()
	if n, _ := r.Failures(); r.Generation() <= gen || r.State() != nil || n != 0 {
		t.Errorf("after Restarted: generation %d (was %d), state %v, failures %d", r.Generation(), gen, r.State(), n)
	}
	if _, out := r.Ejected(); !out {
		t.Error("a restart readmitted without a trial")
	}
	wantRoutable(t, r, sec, true)
	l := lease(t, r, registry.Claim{}, sec)
	l.Succeeded(at(sec))
	l.Release()
	if _, out := r.Ejected(); out {
		t.Error("still ejected after the trial")
	}
}

func TestOldReportIsDropped(t *testing.T) {
	r := newReplica(t, registry.PoolConfig{})
	gen := r.Generation()
	r.Report(registry.State{At: at(sec), Steps: 10, KVTokens: 2000})
	r.Report(registry.State{At: t0, Steps: 5, KVTokens: 1000})
	if full, _ := r.Capacity(); full != 2000 || r.Generation() != gen {
		t.Errorf("capacity %d, generation %d: an answer overtaken by a later one was used", full, r.Generation())
	}
}

func TestCapacityIsAssumedUntilReported(t *testing.T) {
	p := newPool(t, 2, registry.PoolConfig{KVTokens: 1000, BlockSize: 32})
	if got, known := p.Capacity(); got != 1700 || !known || p.BlockSize() != 32 {
		t.Errorf("Capacity = %d, %v, BlockSize = %d, want 1700, true, 32", got, known, p.BlockSize())
	}
	p.Replicas()[0].Report(registry.State{At: t0, KVTokens: 2000, BlockSize: 64})
	if got, _ := p.Capacity(); got != 2550 || p.BlockSize() != 64 {
		t.Errorf("Capacity = %d, BlockSize = %d, want 2550, 64", got, p.BlockSize())
	}
	unknown := newPool(t, 2, registry.PoolConfig{})
	unknown.Replicas()[0].Report(registry.State{At: t0, KVTokens: 1000})
	if got, known := unknown.Capacity(); got != 850 || known {
		t.Errorf("Capacity = %d, %v, want 850, false while one is unknown", got, known)
	}
}

// serve plays one request alone on r that takes overhead and then rate tokens
// a second.
func serve(t *testing.T, r *registry.Replica, now *time.Duration, tokens int, overhead time.Duration, rate float64) {
	t.Helper()
	l := lease(t, r, registry.Claim{Prefill: tokens}, *now)
	*now += overhead + time.Duration(float64(tokens)/rate*1e9)
	l.FirstTokenAt(at(*now))
	l.Release()
}

func wantRate(t *testing.T, when string, r *registry.Replica, want, tolerance float64) {
	t.Helper()
	if got := r.PrefillRate(); got < want*(1-tolerance) || got > want*(1+tolerance) {
		t.Errorf("%s: PrefillRate = %.0f, want %.0f ± %.0f %%", when, got, want, 100*tolerance)
	}
}

func TestPrefillRateIsLearned(t *testing.T) {
	for _, rate := range []float64{1500, 3200, 15_000, 60_000} {
		r := newReplica(t, registry.PoolConfig{})
		wantRate(t, "at first", r, 10_000, 0)
		now := time.Duration(0)
		for i := range 100 {
			serve(t, r, &now, 200+i*37%4000, 40*time.Millisecond, rate)
		}
		wantRate(t, "after 100 prompts", r, rate, 0.15)
		was := r.PrefillRate()
		serve(t, r, &now, 2000, 0, 0.1) // one that hung for hours
		wantRate(t, "after an outlier", r, was, 0.15)
	}
}

// Short prompts take little longer than none: that must not pass for a slow
// replica, nor may equal prompts leave a wrong belief standing.
func TestPrefillRateOfUniformPrompts(t *testing.T) {
	short := newReplica(t, registry.PoolConfig{PrefillRate: 15_000})
	now := time.Duration(0)
	for range 300 {
		serve(t, short, &now, 50, 45*time.Millisecond, 15_000)
	}
	wantRate(t, "short prompts", short, 15_000, 0.1)
	equal := newReplica(t, registry.PoolConfig{PrefillRate: 15_000})
	for range 300 {
		serve(t, equal, &now, 2000, 50*time.Millisecond, 3200)
	}
	wantRate(t, "equal prompts", equal, 3200, 0.2)
}

func TestPrefillRateCountsTheQueueAhead(t *testing.T) {
	r := newReplica(t, registry.PoolConfig{PrefillRate: 5000})
	for round := range 40 {
		start := time.Duration(round) * time.Minute
		var ls [8]registry.Lease
		for i := range ls {
			ls[i] = lease(t, r, registry.Claim{Prefill: 1000}, start)
		}
		for i := range ls { // one after the other, 10,000 tokens a second
			ls[i].FirstTokenAt(at(start + time.Duration(i+1)*100*time.Millisecond))
			ls[i].Release()
		}
	}
	wantRate(t, "eight prompts in line", r, 10_000, 0.05)
}

func TestMeanPrefill(t *testing.T) {
	p := newPool(t, 2, registry.PoolConfig{})
	if got := p.MeanPrefill(); got != 0 {
		t.Errorf("MeanPrefill = %v before the first request, want 0", got)
	}
	for i := range 200 {
		lease(t, p.Replicas()[i%2], registry.Claim{Prefill: 1000 + 2000*(i%2), Context: 10, Sequences: 2}, 0)
	}
	if got := p.MeanPrefill(); got < 950 || got > 1050 {
		t.Errorf("MeanPrefill = %v of 500 and 1500 per sequence in turn, want about 1000", got)
	}
}

func TestPrefillRateIsSharedByThePool(t *testing.T) {
	p, err := registry.NewPool(registry.PoolConfig{Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string, weight float64) *registry.Replica {
		r, err := p.Add(registry.ReplicaConfig{Name: name, URL: "http://" + name, Weight: weight})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, double := add("a", 1), add("double", 2)
	now := time.Duration(0)
	for i := range 100 {
		serve(t, a, &now, 200+i*37%4000, 40*time.Millisecond, 3000)
	}
	wantRate(t, "one that served nothing", double, 6000, 0.1)
	wantRate(t, "a newcomer", add("new", 1), 3000, 0.1)
	for i := range 200 { // a card that got slow
		serve(t, a, &now, 200+i*37%4000, 40*time.Millisecond, 3000)
		serve(t, double, &now, 200+i*37%4000, 40*time.Millisecond, 3000)
	}
	wantRate(t, "half as fast as its weight says", double, 3000, 0.25)
	wantRate(t, "the one that did not change", a, 3000, 0.15)
}

func TestStepTimeIsLearned(t *testing.T) {
	r := newReplica(t, registry.PoolConfig{})
	if got := r.StepTime(); got != 30*time.Millisecond {
		t.Fatalf("StepTime = %v, want the configured 30ms", got)
	}
	for i := range 100 { // 20 sequences, a token each 50 ms
		r.Report(registry.State{At: at(time.Duration(i) * sec), Running: 20, Steps: uint64(1 + 20*i), GeneratedTokens: float64(400 * i)})
	}
	if got := r.StepTime().Round(time.Millisecond); got != 50*time.Millisecond {
		t.Errorf("StepTime = %v from counters, want 50ms", got)
	}
	for range 100 {
		r.ObserveStep(20 * time.Millisecond)
		r.ObserveStep(time.Hour) // not a step
		r.ObserveStep(0)
	}
	if got := r.StepTime().Round(time.Millisecond); got != 20*time.Millisecond {
		t.Errorf("StepTime = %v from requests, want 20ms", got)
	}
}
