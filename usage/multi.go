package usage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/expediterhq/expediter"
)

// Multi gives each record to several sinks, each its own copy. A sink that
// panics is contained and counted, and the others still get the record.
type Multi struct {
	sinks    []expediter.Sink
	panicked atomic.Uint64
}

// NewMulti returns a sink that writes to all of sinks, in order.
func NewMulti(sinks ...expediter.Sink) *Multi { return &Multi{sinks: sinks} }

// Write gives r to every sink. It blocks only if one of them does.
func (m *Multi) Write(r *expediter.Record) {
	for i, s := range m.sinks {
		own := r
		if i < len(m.sinks)-1 {
			c := *r
			own = &c
		}
		m.write(s, own)
	}
}

func (m *Multi) write(s expediter.Sink, r *expediter.Record) {
	defer func() {
		if recover() != nil {
			m.panicked.Add(1)
		}
	}()
	s.Write(r)
}

// Panicked is how many writes ended in a panic of a sink.
func (m *Multi) Panicked() uint64 { return m.panicked.Load() }

// Close closes those sinks that have a method Close(context.Context) error,
// at the same time, and joins their errors.
func (m *Multi) Close(ctx context.Context) error {
	errs := make(chan error, len(m.sinks))
	n := 0
	for _, s := range m.sinks {
		c, ok := s.(interface{ Close(context.Context) error })
		if !ok {
			continue
		}
		n++
		go func() {
			defer func() {
				if p := recover(); p != nil {
					errs <- fmt.Errorf("usage: close panicked: %v", p)
				}
			}()
			errs <- c.Close(ctx)
		}()
	}
	var all []error
	for range n {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}
