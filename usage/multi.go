package usage

import (
	"context"
	"errors"
	"fmt"

	"github.com/expediterhq/expediter"
)

// Multi gives each record to several sinks, each its own copy.
type Multi struct{ sinks []expediter.Sink }

// NewMulti returns a sink that writes to all of sinks, in order.
func NewMulti(sinks ...expediter.Sink) *Multi { return &Multi{sinks: sinks} }

// Write gives r to every sink. It blocks only if one of them does. When one panics
// the others still get the record; then Write panics with the same value, for the
// Handler to contain and log.
func (m *Multi) Write(r *expediter.Record) {
	var first any
	for i, s := range m.sinks {
		own := r
		if i < len(m.sinks)-1 {
			c := *r
			own = &c
		}
		if p := write(s, own); first == nil {
			first = p
		}
	}
	if first != nil {
		panic(first)
	}
}

func write(s expediter.Sink, r *expediter.Record) (panicked any) {
	defer func() { panicked = recover() }()
	s.Write(r)
	return nil
}

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
