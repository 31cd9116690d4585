package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/expediterhq/expediter/registry"
)

// replicaGauge is one value of a replica at the moment of a scrape.
type replicaGauge struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(r *registry.Replica, now time.Time) float64
}

// reportGauge is one value a replica reported, absent before its first report.
type reportGauge struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *registry.State, now time.Time) float64
}

// poolCollector reads pools at each scrape, so that the series of a replica
// go when it does.
type poolCollector struct {
	pools   func() []*registry.Pool
	own     []replicaGauge
	reports []reportGauge
}

func newPoolCollector(pools func() []*registry.Pool) *poolCollector {
	c := &poolCollector{pools: pools}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("expediter_replica_"+name, help, []string{"pool", "replica"}, nil)
	}
	own := func(name, help string, value func(*registry.Replica, time.Time) float64) {
		c.own = append(c.own, replicaGauge{desc(name, help), prometheus.GaugeValue, value})
	}
	reported := func(name, help string, kind prometheus.ValueType, value func(*registry.State, time.Time) float64) {
		c.reports = append(c.reports, reportGauge{desc("reported_"+name, help), kind, value})
	}
	own("requests", "Sequences sent by this gateway and not finished.",
		func(r *registry.Replica, _ time.Time) float64 { return float64(r.Load().Requests) })
	own("prefilling", "Those of them without a first token.",
		func(r *registry.Replica, _ time.Time) float64 { return float64(r.Load().Prefilling) })
	own("prefill_tokens", "Uncached prompt tokens sent by this gateway and still to be computed.",
		func(r *registry.Replica, _ time.Time) float64 { return float64(r.Load().Prefill) })
	own("kv_tokens", "KV tokens claimed by this gateway.",
		func(r *registry.Replica, _ time.Time) float64 { return float64(r.Load().KV) })
	own("estimated_kv_tokens", "KV tokens held, those of other senders included.",
		func(r *registry.Replica, now time.Time) float64 { return float64(r.Estimate(now).KV) })
	own("usable_kv_tokens", "KV tokens that may be claimed; 0 while unknown.",
		func(r *registry.Replica, _ time.Time) float64 { _, usable := r.Capacity(); return float64(usable) })
	own("routable", "1 if requests may be sent.",
		func(r *registry.Replica, now time.Time) float64 { return oneIf(r.Routable(now)) })
	own("ejected", "1 if out of rotation for its health.",
		func(r *registry.Replica, _ time.Time) float64 { _, out := r.Ejected(); return oneIf(out) })
	own("draining", "1 if being drained.",
		func(r *registry.Replica, _ time.Time) float64 { return oneIf(r.Draining()) })
	own("prefill_tokens_per_second", "Prefill rate, as learned.",
		func(r *registry.Replica, _ time.Time) float64 { return r.PrefillRate() })
	own("step_seconds", "Time per output token of one sequence, as learned.",
		func(r *registry.Replica, _ time.Time) float64 { return r.StepTime().Seconds() })
	reported("age_seconds", "Time since the last report.", prometheus.GaugeValue,
		func(s *registry.State, now time.Time) float64 { return max(0, now.Sub(s.At).Seconds()) })
	reported("running", "Sequences in the engine's batch.", prometheus.GaugeValue,
		func(s *registry.State, _ time.Time) float64 { return float64(s.Running) })
	reported("waiting", "Sequences in the engine's queue.", prometheus.GaugeValue,
		func(s *registry.State, _ time.Time) float64 { return float64(s.Waiting) })
	reported("kv_usage", "Share of the KV cache in use, 0 to 1.", prometheus.GaugeValue,
		func(s *registry.State, _ time.Time) float64 { return s.KVUsage })
	reported("cached_tokens_total", "Prompt tokens that the engine found in its prefix cache.", prometheus.CounterValue,
		func(s *registry.State, _ time.Time) float64 { return s.CachedTokens })
	reported("prompt_tokens_total", "Prompt tokens of the engine's requests, those found in the cache included.", prometheus.CounterValue,
		func(s *registry.State, _ time.Time) float64 { return s.PromptTokens })
	reported("preemptions_total", "Sequences the engine preempted.", prometheus.CounterValue,
		func(s *registry.State, _ time.Time) float64 { return float64(s.Preemptions) })
	return c
}

func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range c.own {
		ch <- g.desc
	}
	for _, g := range c.reports {
		ch <- g.desc
	}
}

func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	seen := make(map[[2]string]bool) // one name twice would spoil the whole scrape
	for _, p := range c.pools() {
		for _, r := range p.Replicas() {
			at := [2]string{label(p.Name()), label(r.Name())}
			if seen[at] {
				continue
			}
			seen[at] = true
			for _, g := range c.own {
				ch <- prometheus.MustNewConstMetric(g.desc, g.kind, g.value(r, now), at[:]...)
			}
			s := r.State()
			if s == nil {
				continue
			}
			for _, g := range c.reports {
				ch <- prometheus.MustNewConstMetric(g.desc, g.kind, g.value(s, now), at[:]...)
			}
		}
	}
}

// label makes a configured name fit for a label.
func label(name string) string { return strings.ToValidUTF8(name, "\ufffd") }

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
