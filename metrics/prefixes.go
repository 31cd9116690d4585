package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/expediterhq/expediter"
)

// prefixCollector reads at each scrape how large the prefix maps are.
type prefixCollector struct {
	sizes         func() map[string]expediter.PrefixSize
	blocks, bytes *prometheus.Desc
}

// WatchPrefixes shows at each scrape, as expediter_prefix_*, what sizes
// returns by the name of the pool. It may be called once.
func (m *Metrics) WatchPrefixes(sizes func() map[string]expediter.PrefixSize) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("expediter_prefix_"+name, help, []string{"pool"}, nil)
	}
	m.registry.MustRegister(&prefixCollector{
		sizes:  sizes,
		blocks: desc("blocks", "Prompt blocks that the replicas of the pool are believed to hold."),
		bytes:  desc("bytes", "Memory that this knowledge takes."),
	})
}

func (c *prefixCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.blocks
	ch <- c.bytes
}

func (c *prefixCollector) Collect(ch chan<- prometheus.Metric) {
	all := make(map[string]expediter.PrefixSize) // two names may share a label
	for name, s := range c.sizes() {
		at := all[label(name)]
		all[label(name)] = expediter.PrefixSize{Blocks: at.Blocks + s.Blocks, Bytes: at.Bytes + s.Bytes}
	}
	for name, s := range all {
		ch <- prometheus.MustNewConstMetric(c.blocks, prometheus.GaugeValue, float64(s.Blocks), name)
		ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(s.Bytes), name)
	}
}
