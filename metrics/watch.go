package metrics

import (
	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/registry"
)

// Watch shows the replicas of pools and the lines in front of them at each
// scrape, as expediter_replica_* and expediter_queue_*; either function may
// be nil. Both are called from the scrape's goroutine. A later Watch takes
// the place of an earlier one.
func (m *Metrics) Watch(pools func() []*registry.Pool, lines func() map[string]admission.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watchedPools != nil {
		m.registry.Unregister(m.watchedPools)
		m.watchedPools = nil
	}
	if m.watchedLines != nil {
		m.registry.Unregister(m.watchedLines)
		m.watchedLines = nil
	}
	if pools != nil {
		m.watchedPools = newPoolCollector(pools)
		m.registry.MustRegister(m.watchedPools)
	}
	if lines != nil {
		m.watchedLines = newLineCollector(lines)
		m.registry.MustRegister(m.watchedLines)
	}
}
