package vllm

import (
	"context"
	"time"

	"github.com/expediterhq/expediter/registry"
)

const (
	askAgain   = 30 * time.Second // between questions that were not answered
	keepBuffer = 1 << 20          // larger page buffers are not kept
	quiet      = 3                // misses in a row before a line is logged
)

// A scraper reads one replica's metrics again and again.
type scraper struct {
	*watch
	replica *registry.Replica
	page    []byte
	misses  int

	started    float64 // the process's start as last seen
	generation uint64  // the replica's, for which facts hold
	facts      facts
	askAt      time.Time
}

// facts do not change while an engine lives.
type facts struct {
	known       bool
	version     string
	maxModelLen int
}

// scrape reports what the page says; it returns whether there was one.
func (s *scraper) scrape(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, s.Timeout)
	asked := s.replica.Load()
	m, err := s.read(limited)
	cancel()
	if ctx.Err() != nil {
		return false
	}
	s.note(err)
	if err != nil {
		return false
	}
	now := time.Now()
	if s.started > 0 && m.Started > s.started {
		s.replica.Restarted()
	}
	s.started = max(s.started, m.Started)
	s.checkGeneration()
	state := m.State(now)
	state.Version, state.MaxModelLen = s.facts.version, s.facts.maxModelLen
	s.replica.ReportSince(state, asked)
	s.checkGeneration()
	if !s.facts.known && !now.Before(s.askAt) {
		s.ask(ctx, now)
	}
	return true
}

// read asks for the page and parses it.
func (s *scraper) read(ctx context.Context) (Metrics, error) {
	resp, err := ask(ctx, s.client, s.replica.URL(), "/metrics")
	if err != nil {
		return Metrics{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := readPage(s.page[:0], resp.Body)
	if s.page = page; cap(page) > keepBuffer {
		s.page = nil
	}
	if err != nil {
		return Metrics{}, err
	}
	return parseMetrics(page)
}

// checkGeneration forgets what was asked of an engine that has restarted.
func (s *scraper) checkGeneration() {
	if g := s.replica.Generation(); g != s.generation {
		s.generation, s.facts, s.askAt = g, facts{}, time.Time{}
	}
}

// ask finds out what stays the same while the engine lives. It goes into the
// next report.
func (s *scraper) ask(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	s.askAt = now.Add(askAgain)
	version, err := Version(ctx, s.client, s.replica.URL())
	if err != nil {
		return
	}
	models, err := Models(ctx, s.client, s.replica.URL())
	if err != nil {
		return
	}
	s.facts = facts{known: true, version: version}
	for _, m := range models {
		s.facts.maxModelLen = max(s.facts.maxModelLen, m.MaxModelLen)
	}
}

// note logs the begin and the end of a silence, not each miss.
func (s *scraper) note(err error) {
	if err != nil {
		if s.misses++; s.misses == quiet {
			s.Logger.Warn("replica does not report", "pool", s.Pool.Name(), "replica", s.replica.Name(), "error", err)
		}
		return
	}
	if s.misses >= quiet {
		s.Logger.Info("replica reports again", "pool", s.Pool.Name(), "replica", s.replica.Name(), "misses", s.misses)
	}
	s.misses = 0
}
