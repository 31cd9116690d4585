package metrics

import "github.com/prometheus/client_golang/prometheus"

// QuotaState is what a quota store in Redis can tell about itself.
type QuotaState struct {
	Down    bool   // some part of Redis is away, and the policy answers for it
	Pending int    // settlements that wait for Redis
	Dropped uint64 // settlements given up: for want of room, or since Redis went on refusing a tenant's keys
}

// WatchQuota shows at each scrape, as expediter_quota_*, what state returns.
// It may be called once.
func (m *Metrics) WatchQuota(state func() QuotaState) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "expediter_quota_down", Help: "1 while Redis, or a part of it, is away."},
			func() float64 { return oneIf(state().Down) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "expediter_quota_pending_settlements", Help: "Settlements that wait for Redis."},
			func() float64 { return float64(state().Pending) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "expediter_quota_dropped_settlements_total", Help: "Settlements given up, for want of room or since Redis went on refusing a tenant's keys."},
			func() float64 { return float64(state().Dropped) }),
	)
}
