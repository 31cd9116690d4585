package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Sink is what the sinks of package usage tell about themselves.
type Sink interface {
	Written() uint64 // records delivered
	Dropped() uint64 // records lost
	Waiting() int    // records held in memory
}

// sinkCollector reads sinks at each scrape.
type sinkCollector struct {
	written, dropped, waiting *prometheus.Desc

	mu    sync.Mutex
	sinks map[string]Sink
}

func newSinkCollector() *sinkCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("expediter_usage_"+name, help, []string{"sink"}, nil)
	}
	return &sinkCollector{
		written: desc("written_total", "Usage records delivered."),
		dropped: desc("dropped_total", "Usage records lost: no room, refused, or cut off at shutdown."),
		waiting: desc("waiting", "Usage records held in memory."),
		sinks:   make(map[string]Sink),
	}
}

// WatchSink shows s at each scrape as expediter_usage_written_total,
// expediter_usage_dropped_total and expediter_usage_waiting, with name as the
// label sink. It replaces an earlier sink of that name; a nil s removes it.
func (m *Metrics) WatchSink(name string, s Sink) {
	m.sinks.mu.Lock()
	defer m.sinks.mu.Unlock()
	if s == nil {
		delete(m.sinks.sinks, label(name))
		return
	}
	m.sinks.sinks[label(name)] = s
}

func (c *sinkCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.written
	ch <- c.dropped
	ch <- c.waiting
}

func (c *sinkCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	sinks := maps.Clone(c.sinks)
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(sinks)) {
		s := sinks[name]
		ch <- prometheus.MustNewConstMetric(c.written, prometheus.CounterValue, float64(s.Written()), name)
		ch <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(s.Dropped()), name)
		ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(s.Waiting()), name)
	}
}
