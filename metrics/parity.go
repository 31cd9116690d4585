package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/expediterhq/expediter/registry"
)

// parityCollector reads at each scrape which replicas count the same tokens.
type parityCollector struct {
	agrees func() map[*registry.Replica]bool
	desc   *prometheus.Desc
}

// WatchParity shows at each scrape, as expediter_tokenizer_parity, whether
// replicas count the same tokens as the gateway; those that agrees leaves out
// have no series. agrees is called from the scrape's goroutine. A later
// WatchParity takes the place of an earlier one; nil ends it.
func (m *Metrics) WatchParity(agrees func() map[*registry.Replica]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watchedParity != nil {
		m.registry.Unregister(m.watchedParity)
		m.watchedParity = nil
	}
	if agrees == nil {
		return
	}
	m.watchedParity = &parityCollector{agrees: agrees, desc: prometheus.NewDesc("expediter_tokenizer_parity",
		"1 if the replica's token ids are those of the gateway, 0 if not; absent while unknown.", []string{"pool", "replica"}, nil)}
	m.registry.MustRegister(m.watchedParity)
}

func (c *parityCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

func (c *parityCollector) Collect(ch chan<- prometheus.Metric) {
	all := make(map[[2]string]bool) // one name twice would spoil the whole scrape
	for r, same := range c.agrees() {
		at := [2]string{label(r.Pool().Name()), label(r.Name())}
		if before, twice := all[at]; twice {
			same = same && before
		}
		all[at] = same
	}
	for at, same := range all {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, oneIf(same), at[:]...)
	}
}
