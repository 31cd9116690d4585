package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/expediterhq/expediter"
)

// FuncConfig says how records reach a team's own function.
type FuncConfig struct {
	// Buffer is how many records wait in memory, at most. If zero, 65,536.
	Buffer int

	// Report is told of the function's errors and panics. If nil, nobody is.
	Report func(error)
}

// Func is a sink that calls a function with one record after another, from
// one goroutine. The function may take its time, fail or panic: requests
// never wait for it. Its context ends when Close gives up.
type Func struct {
	f      func(context.Context, *expediter.Record) error
	report func(error)
	buffer *buffer
}

// NewFunc returns a sink that calls f. A record for which f returns an error
// or panics counts as dropped and is not offered again; a function that wants
// another try makes it itself.
func NewFunc(f func(context.Context, *expediter.Record) error, cfg FuncConfig) *Func {
	s := &Func{f: f, report: cfg.Report}
	if s.report == nil {
		s.report = func(error) {}
	}
	s.buffer = newBuffer(s, bufferConfig{limit: orDefault(cfg.Buffer), batch: 1, every: time.Hour})
	return s
}

// Write takes r, or counts it as dropped. It never blocks.
func (s *Func) Write(r *expediter.Record) { s.buffer.push(r) }

// Written is how many records the function has taken.
func (s *Func) Written() uint64 { return s.buffer.written.Load() }

// Dropped is how many records were lost.
func (s *Func) Dropped() uint64 { return s.buffer.dropped.Load() }

// Waiting is how many records are held in memory.
func (s *Func) Waiting() int { return s.buffer.waiting() }

// Close stops taking records, delivers those that wait, and returns an error
// if some were lost because ctx ended first.
func (s *Func) Close(ctx context.Context) error { return s.buffer.close(ctx) }

func (s *Func) carry(ctx context.Context, batch []*expediter.Record) (done, lost int, err error) {
	for _, r := range batch {
		if err := s.call(ctx, r); err != nil {
			s.report(err)
			lost++
		}
		done++
	}
	return done, lost, nil
}

func (s *Func) call(ctx context.Context, r *expediter.Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("usage: function panicked: %v", p)
		}
	}()
	return s.f(ctx, r)
}

func (s *Func) idle(context.Context) {}
func (s *Func) end(context.Context)  {}
