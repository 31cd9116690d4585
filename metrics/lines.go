package metrics

import (
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/expediterhq/expediter/admission"
)

// maxTier is the highest tier with series of its own; all above share
// "other".
const maxTier = 15

// lineCollector reads the lines in front of pools at each scrape.
type lineCollector struct {
	lines                                 func() map[string]admission.Stats
	waiting, tokens, rate, tiers, tenants *prometheus.Desc
}

func newLineCollector(lines func() map[string]admission.Stats) *lineCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("expediter_queue_"+name, help, labels, nil)
	}
	return &lineCollector{
		lines:   lines,
		waiting: desc("waiting", "Requests in line.", "pool"),
		tokens:  desc("waiting_tokens", "KV tokens that the requests in line will claim.", "pool"),
		rate:    desc("free_tokens_per_second", "Measured rate at which room appears; 0 while unknown.", "pool"),
		tiers:   desc("tier_waiting", "Requests in line by tier.", "pool", "tier"),
		tenants: desc("tier_tenants", "Tenants with requests in line by tier.", "pool", "tier"),
	}
}

func (c *lineCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.waiting, c.tokens, c.rate, c.tiers, c.tenants} {
		ch <- d
	}
}

func (c *lineCollector) Collect(ch chan<- prometheus.Metric) {
	lines := c.lines()
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		s, pool := lines[name], label(name)
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{pool}, labels...)...)
		}
		gauge(c.waiting, float64(s.Waiting))
		gauge(c.tokens, float64(s.WaitingTokens))
		gauge(c.rate, s.FreeRate)
		for tier, sum := range byTier(s.ByTier) {
			gauge(c.tiers, float64(sum.Waiting), tier)
			gauge(c.tenants, float64(sum.Tenants), tier)
		}
	}
}

// byTier sums the tiers by their label.
func byTier(tiers []admission.TierStats) map[string]admission.TierStats {
	sums := make(map[string]admission.TierStats)
	for _, t := range tiers {
		name := other
		if t.Tier >= 0 && t.Tier <= maxTier {
			name = strconv.Itoa(t.Tier)
		}
		sum := sums[name]
		sum.Waiting += t.Waiting
		sum.Tenants += t.Tenants
		sums[name] = sum
	}
	return sums
}
