package vllm

import (
	"context"
	"slices"
	"strings"
	"sync"
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
	misses  int

	started    float64 // the process's start as last seen
	generation uint64  // the replica's, for which facts hold
	facts      facts
	askAt      time.Time
	missing    string // of Expect, as last logged
}

// facts do not change while an engine lives.
type facts struct {
	complete    bool     // nothing of Expect is missing
	models      []string // nil = not known
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
	state.Models, state.MaxModelLen = s.facts.models, s.facts.maxModelLen
	s.replica.ReportSince(state, asked)
	s.checkGeneration()
	if !s.facts.complete && !now.Before(s.askAt) {
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
	room := pages.Get().(*[]byte)
	page, err := readPage((*room)[:0], resp.Body)
	if *room = page; cap(page) <= keepBuffer {
		defer pages.Put(room)
	}
	if err != nil {
		return Metrics{}, err
	}
	return parseMetrics(page)
}

// pages is memory for pages, of which a few are read at a time however many
// replicas there are.
var pages = sync.Pool{New: func() any { return new([]byte) }}

// checkGeneration forgets what was asked of an engine that has restarted.
func (s *scraper) checkGeneration() {
	if g := s.replica.Generation(); g != s.generation {
		s.generation, s.facts, s.askAt = g, facts{}, time.Time{}
	}
}

// ask finds out what hardly changes while the engine lives. It goes into the
// next report.
func (s *scraper) ask(ctx context.Context, now time.Time) {
	limited, cancel := context.WithTimeout(ctx, s.Timeout)
	models, err := Models(limited, s.client, s.replica.URL())
	cancel()
	s.askAt = now.Add(askAgain)
	if err != nil {
		return
	}
	s.facts = facts{models: make([]string, 0, min(len(models), maxAdapters))}
	for _, m := range models[:min(len(models), maxAdapters)] {
		s.facts.models = append(s.facts.models, m.ID)
		s.facts.maxModelLen = max(s.facts.maxModelLen, m.MaxModelLen)
	}
	s.facts.complete = s.compare(s.facts.models)
}

// compare reports whether all that is expected is served, and logs when what
// is missing is not what was missing before.
func (s *scraper) compare(served []string) bool {
	var missing []string
	for _, name := range s.Expect {
		if !slices.Contains(served, name) {
			missing = append(missing, name)
		}
	}
	list := strings.Join(missing, ", ")
	was := s.missing
	s.missing = list
	switch {
	case list == was:
	case list == "":
		s.Logger.Info("replica serves all models", "pool", s.Pool.Name(), "replica", s.replica.Name())
	default:
		s.Logger.Warn("replica does not serve a model", "pool", s.Pool.Name(), "replica", s.replica.Name(), "missing", list, "serves", listed(served))
	}
	return list == ""
}

// listed returns the first of the names, as they may be logged.
func listed(names []string) string {
	return clip(strings.Join(names[:min(len(names), 10)], ", "), 256)
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
