package admissiontest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/expediterhq/expediter/admission"
)

// call is one Admit, and how its start is called. What start itself writes
// has no lock, so that the race detector sees calls that are not in order.
type call struct {
	says  func(n int) (bool, error) // what start reports when called for the n-th time
	done  chan struct{}             // closed when Admit has returned
	err   error                     // what it returned
	raise any                       // what it panicked with
	took  time.Duration

	tries   int  // calls of start
	granted bool // start reported true

	mu    sync.Mutex
	state state
	fault error // the first rule broken
}

// state says which calls of start and Keep are in order.
type state struct {
	busy     bool // start is under way
	settled  bool // start reported true or an error, or panicked
	returned bool // Admit has
	kept     bool // Keep was called
}

// admit begins an Admit on a goroutine of its own.
func (b *bench) admit(ctx context.Context, w admission.Work, says func(n int) (bool, error)) *call {
	c := &call{says: says, done: make(chan struct{})}
	b.calls = append(b.calls, c)
	go c.run(ctx, b.Admitter, w)
	return c
}

func (c *call) run(ctx context.Context, a admission.Admitter, w admission.Work) {
	began := time.Now()
	defer func() {
		c.raise, c.took = recover(), time.Since(began)
		c.enter(func(s *state) string { s.returned = true; return "" })
		close(c.done)
	}()
	c.err = a.Admit(ctx, w, c.start)
}

// enter changes the state, and keeps the first rule that was broken. It
// reports whether none was by this.
func (c *call) enter(f func(s *state) string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fault := f(&c.state)
	if fault != "" && c.fault == nil {
		c.fault = errors.New(fault)
	}
	return fault == ""
}

// start is what Admit gets. A call that is out of order fails.
func (c *call) start() (ok bool, err error) {
	inOrder := c.enter(func(s *state) string {
		switch {
		case s.busy:
			return "start was called while it was under way"
		case s.returned:
			return "start was called after Admit returned"
		case s.settled:
			return "start was called again after it reported true, failed or panicked"
		}
		s.busy = true
		return ""
	})
	if !inOrder {
		return false, errors.New("out of order")
	}
	settled := true // also if says panics
	defer func() {
		c.enter(func(s *state) string { s.busy, s.settled = false, settled; return "" })
	}()
	c.tries++
	ok, err = c.says(c.tries)
	settled = ok || err != nil
	c.granted = c.granted || ok
	return ok, err
}

// keep is a Keep for the work of this call.
func (c *call) keep() {
	c.enter(func(s *state) string {
		was := *s
		s.kept = true
		switch {
		case was.busy:
			return "Keep was called while start was under way"
		case was.returned:
			return "Keep was called after Admit returned"
		case was.kept:
			return "Keep was called twice"
		}
		return ""
	})
}

// returned reports whether Admit has returned.
func (c *call) returned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// within waits for Admit to return, and says so if it does not within d.
func (c *call) within(d time.Duration) error {
	select {
	case <-c.done:
		return nil
	case <-time.After(d):
		return wrong("Admit did not return within %v", d)
	}
}

// check says which rule the call broke that holds for all calls.
func (c *call) check() error {
	if !c.returned() {
		return wrong("Admit has not returned")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.fault != nil:
		return c.fault
	case c.raise != nil && c.raise != disco:
		return wrong("Admit panicked: %v", c.raise)
	case c.raise == nil && c.granted != (c.err == nil):
		return wrong("Admit = %v, though start reported %v", c.err, c.granted)
	}
	return nil
}

// want waits for a call that is to start at once.
func (c *call) want() error {
	if err := c.within(prompt); err != nil {
		return err
	}
	if c.err != nil || c.raise != nil {
		return wrong("Admit = %v, panic %v, want a start", c.err, c.raise)
	}
	return c.check()
}

// disco is what a start panics with.
const disco = "at the disco"

func yes(int) (bool, error) { return true, nil }
func no(int) (bool, error)  { return false, nil }
