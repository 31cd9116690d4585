package fleet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/expediterhq/expediter/sim"
)

// Report is what came of a run.
type Report struct {
	Requests  int // in the trace
	Finished  int // got all their tokens
	Shed      int // turned away before dispatch: the sum of the next four
	OverQuota int // by quota
	Full      int // the line was full, or they were pushed out of it
	Hopeless  int // the line could not serve them in time
	Expired   int // waited in line for too long
	Failed    int // got no token, and did not wait for one: the sum of the next four
	RuledOut  int // the scorers said router.Never of all replicas that could be used
	NoReplica int // no replica could be used: dead, ejected, gone, or tried already
	TooLarge  int // more tokens than any KV cache holds
	Broken    int // their attempts all failed
	Truncated int // broke after their first token
	Retried   int // dispatches after a failed one
	TooLong   int // dispatches refused because the request exceeds the KV cache

	Elapsed time.Duration // from the first request to the end of the last
	TTFT    Dist          // of finished requests
	TPOT    Dist          // mean per finished request of at least 2 tokens
	Wait    Dist          // in line, of dispatched requests

	TTFTCurve []time.Duration // quantiles of TTFT in steps of 1 %, from the least to the largest; nil if none finished
	TPOTCurve []time.Duration

	Met      int     // finished requests within the SLO
	Goodput  float64 // Met / Requests
	GoodRate float64 // Met per second of arrivals, or of Elapsed if requests wait for others or all come at once
	ShedRate float64 // Shed / Requests

	InputTokens  int // of finished requests
	OutputTokens int
	OutputRate   float64 // output tokens per second of Elapsed

	Preemptions int
	Recomputed  int     // tokens computed again because of them
	HitRate     float64 // share of prompt tokens found in prefix caches
	Predicted   int     // prompt tokens that gateways expected to find cached, at dispatch
	Prefill     int     // prompt tokens computed
	KV          float64 // mean share of KV caches held by requests
	KVPeak      float64 // highest share held on any replica
	Loads       int     // LoRA adapter loads
	Imbalance   float64 // most loaded replica's mean requests in flight, over the mean of all

	Replicas []ReplicaReport
	Tenants  []TenantReport // in order of name
	Series   []Point        // one per Config.Sample

	Engines sim.Stats // counters of all engines
}

// Dist sums up a distribution of times.
type Dist struct {
	N                        int
	Mean, P50, P90, P95, P99 time.Duration
	Max                      time.Duration
}

// ReplicaReport is one replica's share.
type ReplicaReport struct {
	Name        string
	Requests    int     // that reached it
	InFlight    float64 // mean over its membership
	KV          float64 // mean share of the KV cache held by requests
	KVPeak      float64
	Steps       int
	Preemptions int
	HitRate     float64
}

// TenantReport is one tenant's share.
type TenantReport struct {
	Name     string
	Requests int
	Finished int
	Shed     int
	Failed   int
	Met      int
	Input    int // tokens of finished requests
	Output   int
	Service  float64 // Input + 2 x Output, as fair schedulers count it
	TTFT     Dist
	TPOT     Dist
}

// Point is the fleet at one moment, by replica.
type Point struct {
	At      time.Duration
	KV      []float32 // share of the KV cache held by requests
	Running []int32
	Waiting []int32 // in the engine
	Line    int     // in the gateways' lines
}

// books are what is counted on the way.
type books struct {
	requests, finished, truncated, retried, tooLong int
	shed                                            [reasons]int
	failed                                          [failures]int
	met, input, output, predicted                   int
	ttft, tpot, wait                                []float64
	series                                          []Point
}

// reason is why a request was turned away.
type reason int

const (
	overQuota reason = iota
	queueFull
	pushedOut
	hopeless
	expired
	reasons
)

// failure is why no replica could serve a request.
type failure int

const (
	ruledOut failure = iota
	noReplica
	tooLarge
	attemptsBroke
	failures
)

// refused ends a request that was never dispatched, or not again.
func (w *world) refused(j *job, why reason) {
	w.books.shed[why]++
	j.tenant.Shed++
	w.settle(j, 0)
	w.finish(j)
}

// failed ends a request that no replica could serve.
func (w *world) failed(j *job, why failure) {
	w.books.failed[why]++
	j.tenant.Failed++
	w.settle(j, 0)
	w.finish(j)
}

// done counts a finished request.
func (w *world) done(j *job) {
	b, t, r := &w.books, j.tenant, j.req
	b.finished++
	t.Finished++
	b.input += r.Prompt
	b.output += r.Output
	t.Input += r.Prompt
	t.Output += r.Output
	ttft := float64(j.first-j.arrived) / 1e9
	b.ttft = append(b.ttft, ttft)
	t.ttft = append(t.ttft, ttft)
	tpot := 0.0
	if r.Output > 1 {
		tpot = float64(w.now-j.first) / 1e9 / float64(r.Output-1)
		b.tpot = append(b.tpot, tpot)
		t.tpot = append(t.tpot, tpot)
	}
	slo := w.cfg.SLO
	if (slo.TTFT == 0 || ttft <= slo.TTFT.Seconds()) && (slo.TPOT == 0 || tpot <= slo.TPOT.Seconds()) {
		b.met++
		t.Met++
	}
}

func (w *world) sample() {
	p := Point{At: time.Duration(w.now)}
	for _, n := range w.nodes {
		st := n.eng.Stats()
		p.KV = append(p.KV, float32(st.KVUsage()))
		p.Running = append(p.Running, int32(st.Running))
		p.Waiting = append(p.Waiting, int32(st.Waiting))
	}
	for _, g := range w.gateways {
		p.Line += g.line.Len()
	}
	w.books.series = append(w.books.series, p)
}

func (w *world) report() *Report {
	b := &w.books
	r := &Report{
		Requests: b.requests, Finished: b.finished, Truncated: b.truncated, Retried: b.retried, TooLong: b.tooLong,
		RuledOut: b.failed[ruledOut], NoReplica: b.failed[noReplica], TooLarge: b.failed[tooLarge], Broken: b.failed[attemptsBroke],
		OverQuota: b.shed[overQuota], Full: b.shed[queueFull] + b.shed[pushedOut], Hopeless: b.shed[hopeless], Expired: b.shed[expired],
		TTFT: dist(b.ttft), TPOT: dist(b.tpot), Wait: dist(b.wait), TTFTCurve: curve(b.ttft), TPOTCurve: curve(b.tpot),
		Met: b.met, InputTokens: b.input, OutputTokens: b.output, Predicted: b.predicted, Series: b.series,
	}
	r.Shed = r.OverQuota + r.Full + r.Hopeless + r.Expired
	r.Failed = r.RuledOut + r.NoReplica + r.TooLarge + r.Broken
	r.Elapsed = time.Duration(w.now) - w.trace.Requests[0].At
	r.Goodput = ratio(b.met, b.requests)
	r.ShedRate = ratio(r.Shed, b.requests)
	span := w.trace.Duration() - w.trace.Requests[0].At
	if span == 0 || len(w.roots) < len(w.trace.Requests) {
		span = r.Elapsed
	}
	r.GoodRate = float64(b.met) / max(span.Seconds(), 1e-9)
	r.OutputRate = float64(b.output) / max(r.Elapsed.Seconds(), 1e-9)
	w.reportReplicas(r)
	for _, t := range w.order {
		t.Name = t.name
		t.Service = float64(t.Input) + 2*float64(t.Output)
		t.TTFT, t.TPOT = dist(t.ttft), dist(t.tpot)
		r.Tenants = append(r.Tenants, t.TenantReport)
	}
	slices.SortFunc(r.Tenants, func(a, b TenantReport) int { return strings.Compare(a.Name, b.Name) })
	return r
}

func (w *world) reportReplicas(r *Report) {
	var sum, most, kv, present float64
	for _, n := range w.nodes {
		n.account()
		st := add(n.lost, n.eng.Stats())
		r.Engines = add(r.Engines, st)
		rr := ReplicaReport{
			Name: n.cfg.Name, Requests: n.requests, KVPeak: n.peak, Steps: int(st.Steps),
			Preemptions: int(st.Preemptions), HitRate: ratio(int(st.Cached), int(st.Prompt)),
		}
		if n.present > 0 {
			rr.InFlight, rr.KV = n.area/n.present, n.kvArea/n.present
		}
		r.Replicas = append(r.Replicas, rr)
		r.KVPeak = max(r.KVPeak, rr.KVPeak)
		sum += n.area
		kv += n.kvArea
		present += n.present
		most = max(most, rr.InFlight)
	}
	st := &r.Engines
	r.Preemptions, r.Recomputed, r.Prefill, r.Loads = int(st.Preemptions), int(st.Recomputed), int(st.Prefill), int(st.Loads)
	r.HitRate = ratio(int(st.Cached), int(st.Prompt))
	if present > 0 {
		r.KV = kv / present
	}
	if sum > 0 {
		r.Imbalance = most / (sum / present)
	}
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// add sums the counters of two engines.
func add(a, b sim.Stats) sim.Stats {
	a.Running += b.Running
	a.Waiting += b.Waiting
	a.Free += b.Free
	a.Usable += b.Usable
	a.Steps += b.Steps
	a.StepTokens += b.StepTokens
	a.Queries += b.Queries
	a.Hits += b.Hits
	a.Prompt += b.Prompt
	a.Cached += b.Cached
	a.Generated += b.Generated
	a.Prefill += b.Prefill
	a.Recomputed += b.Recomputed
	a.Preemptions += b.Preemptions
	a.Loads += b.Loads
	a.Stop += b.Stop
	a.Length += b.Length
	a.Abort += b.Abort
	return a
}

// dist sums up seconds.
func dist(v []float64) Dist {
	n := len(v)
	if n == 0 {
		return Dist{}
	}
	s := slices.Sorted(slices.Values(v))
	sum := 0.0
	for _, x := range s {
		sum += x
	}
	at := func(q float64) time.Duration { // nearest rank
		return seconds(s[max(int(math.Ceil(q*float64(n)))-1, 0)])
	}
	return Dist{N: n, Mean: seconds(sum / float64(n)), P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), Max: seconds(s[n-1])}
}

// curve returns the quantiles of seconds in steps of 1 %.
func curve(v []float64) []time.Duration {
	if len(v) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(v))
	out := make([]time.Duration, 101)
	for i := range out {
		out[i] = seconds(s[max((i*len(s)+99)/100-1, 0)])
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// String is a one-line summary.
func (d Dist) String() string {
	r := func(t time.Duration) time.Duration { return t.Round(time.Millisecond / 10) }
	return fmt.Sprintf("mean %v, p50 %v, p90 %v, p95 %v, p99 %v", r(d.Mean), r(d.P50), r(d.P90), r(d.P95), r(d.P99))
}

// failures says why requests failed, the reasons that none has left out.
func (r *Report) failures() string {
	var parts []string
	for _, why := range []struct {
		n    int
		what string
	}{
		{r.RuledOut, "ruled out by scorers"},
		{r.NoReplica, "no replica to use"},
		{r.TooLarge, "too large"},
		{r.Broken, "all attempts broke"},
	} {
		if why.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", why.n, why.what))
		}
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// String is a summary of a few lines.
func (r *Report) String() string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "requests\t%d, finished %d, shed %d (%.1f%%), failed %d%s, truncated %d\n",
		r.Requests, r.Finished, r.Shed, 100*r.ShedRate, r.Failed, r.failures(), r.Truncated)
	fmt.Fprintf(tw, "goodput\t%.2f%%, %.2f requests/s, %.0f output tokens/s\n", 100*r.Goodput, r.GoodRate, r.OutputRate)
	fmt.Fprintf(tw, "TTFT\t%v\n", r.TTFT)
	fmt.Fprintf(tw, "TPOT\t%v\n", r.TPOT)
	fmt.Fprintf(tw, "prefix hits\t%.1f%%\n", 100*r.HitRate)
	fmt.Fprintf(tw, "KV cache\tmean %.1f%%, peak %.1f%%, %d preemptions\n", 100*r.KV, 100*r.KVPeak, r.Preemptions)
	fmt.Fprintf(tw, "imbalance\t%.2f\n", r.Imbalance)
	_ = tw.Flush()
	return b.String()
}
