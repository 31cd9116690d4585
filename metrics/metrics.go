package metrics

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/expediterhq/expediter"
)

// Config says what to count by.
type Config struct {
	// Names are the label values with series of their own; all others share
	// "other".
	Names Names

	// Version is the label of build_info. If empty, the main module's
	// version as the Go linker recorded it.
	Version string
}

// Metrics counts Records and answers scrapes. It is an expediter.Sink that
// never blocks and keeps no Record. All methods are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	families families
	sinks    *sinkCollector
	codes    codeSet

	// mu is held for reading by Write, so that no series of a name comes
	// back after SetNames has taken it out.
	mu      sync.RWMutex
	pools   nameSet
	models  nameSet
	tenants nameSet // nil: no metrics by tenant

	watchedPools *poolCollector // nil: none
	watchedLines *lineCollector // nil: none

	watchedParity *parityCollector // nil: none
}

// New returns a Metrics with a registry of its own.
func New(cfg Config) *Metrics {
	reg := prometheus.NewRegistry()
	m := &Metrics{
		registry: reg,
		families: newFamilies(reg, len(cfg.Names.Tenants) > 0),
		sinks:    newSinkCollector(),
		codes:    newCodeSet(),
		pools:    newNameSet(cfg.Names.Pools),
		models:   newNameSet(cfg.Names.Models),
	}
	if len(cfg.Names.Tenants) > 0 {
		m.tenants = newNameSet(cfg.Names.Tenants)
	}
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newBuildInfo(cfg.Version),
		m.sinks,
	)
	return m
}

// Handler answers scrapes, in the text format or OpenMetrics as asked.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// Register adds a collector of the caller's own to the registry. It fails if
// a metric of the same name is there already.
func (m *Metrics) Register(c prometheus.Collector) error { return m.registry.Register(c) }

// SetNames changes the closed sets, for a configuration that was reloaded.
// Series of names that are gone are deleted; those that stay keep their
// counts. Tenants are ignored if there were none at New.
func (m *Metrics) SetNames(n Names) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pools = m.replace("pool", m.pools, n.Pools)
	m.models = m.replace("model", m.models, n.Models)
	if m.tenants != nil {
		m.tenants = m.replace("tenant", m.tenants, n.Tenants)
	}
}

func (m *Metrics) replace(label string, old nameSet, names []string) nameSet {
	set := newNameSet(names)
	for n := range old {
		if _, stays := set[n]; !stays {
			m.families.forget(label, n)
		}
	}
	return set
}

// Refused counts a request that was turned away before it was accepted, with
// the HTTP status sent.
func (m *Metrics) Refused(status int) {
	m.families.rejected.WithLabelValues(m.codes.label(status)).Inc()
}

// Write counts one finished request. Values below zero count as zero.
func (m *Metrics) Write(r *expediter.Record) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f := &m.families
	pool, model, status := m.pools.label(r.Pool), m.models.label(r.Model), statusLabel(r.Status)
	f.requests.WithLabelValues(pool, model, endpointLabel(r.Endpoint), strconv.FormatBool(r.Stream), status).Inc()
	f.responses.WithLabelValues(m.codes.label(r.HTTPStatus)).Inc()
	add(f.attempts.WithLabelValues(pool), r.Attempts)
	add(f.tokens.WithLabelValues(pool, model, "input"), r.Input)
	add(f.tokens.WithLabelValues(pool, model, "cached"), r.Cached)
	add(f.tokens.WithLabelValues(pool, model, "predicted"), r.Predicted)
	add(f.tokens.WithLabelValues(pool, model, "output"), r.Output)
	add(f.priced.WithLabelValues(pool, model, "reserved"), r.Reserved)
	add(f.priced.WithLabelValues(pool, model, "charged"), r.Charged)
	if r.Estimated {
		f.estimated.WithLabelValues(pool, model).Inc()
	}
	if r.Objective == expediter.Met || r.Objective == expediter.Missed {
		f.objectives.WithLabelValues(pool, model, string(r.Objective)).Inc()
	}
	if r.TTFT > 0 {
		f.ttft.WithLabelValues(pool, model).Observe(r.TTFT.Seconds())
	}
	if r.TPOT > 0 {
		f.tpot.WithLabelValues(pool, model).Observe(r.TPOT.Seconds())
	}
	if r.Attempts > 0 {
		f.wait.WithLabelValues(pool, model).Observe(max(0, r.QueueWait.Seconds()))
	}
	f.duration.WithLabelValues(pool, model).Observe(max(0, r.Total.Seconds()))
	if m.tenants != nil {
		tenant := m.tenants.label(r.Tenant)
		f.tenantRequests.WithLabelValues(tenant, status).Inc()
		add(f.tenantTokens.WithLabelValues(tenant, "input"), r.Input)
		add(f.tenantTokens.WithLabelValues(tenant, "output"), r.Output)
		add(f.tenantTokens.WithLabelValues(tenant, "charged"), r.Charged)
	}
}

func add[T int | int64](c prometheus.Counter, n T) { c.Add(float64(max(n, 0))) }
