package metrics

import "github.com/prometheus/client_golang/prometheus"

// KeyState is what a store of API keys can tell about itself.
type KeyState struct {
	Keys, Tenants int
	Refused       uint64 // attempts without a valid key
	Limited       uint64 // those of them from an address that had failed too often
}

// WatchKeys shows at each scrape, as expediter_keys and
// expediter_authentications_*, what state returns. It may be called once.
func (m *Metrics) WatchKeys(state func() KeyState) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "expediter_keys", Help: "API keys that are known, expired ones included."},
			func() float64 { return float64(state().Keys) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "expediter_tenants", Help: "Tenants that have a key."},
			func() float64 { return float64(state().Tenants) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "expediter_authentications_refused_total", Help: "Requests without a valid key."},
			func() float64 { return float64(state().Refused) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "expediter_authentications_limited_total", Help: "Those of them from an address that had failed too often."},
			func() float64 { return float64(state().Limited) }),
	)
}
