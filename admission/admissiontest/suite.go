package admissiontest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/admission"
)

// Subject is an Admitter under test, with an empty line that has place for 64
// entries of 10 tokens.
type Subject struct {
	Admitter admission.Admitter
	// Close ends the Admitter: whoever waits and whoever comes gets an *Error
	// for Closing, and its goroutines end. If nil, the Admitter has none once
	// nobody waits.
	Close func()
	// MaxWaiting is how many entries may wait, at least 64. If zero, bounds
	// are not checked.
	MaxWaiting int
}

// Run checks the subjects that open returns. Each must be new, and made by
// open itself: it is called in the bubble of the check.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			switch err := c.verdict(t, open); {
			case errors.Is(err, errLeftOut):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// check is one rule. Its function says how the rule is broken.
type check struct {
	name string
	f    func(*bench) error
	// real is how long a check may take that runs in real time, since a bubble
	// cannot tell a lock that is never released from one that soon will be.
	real time.Duration
}

var checks = []check{
	{name: "StartsAtOnce", f: startsAtOnce},
	{name: "WaitsForRoom", f: waitsForRoom},
	{name: "StartFails", f: startFails},
	{name: "StartPanics", f: startPanics},
	{name: "OneStartAtATime", f: oneStartAtATime},
	{name: "NewsWhileStarting", f: newsWhileStarting},
	{name: "FreedDoesNotBlock", f: freedDoesNotBlock},
	{name: "FreedFromStart", f: freedFromStart, real: 20 * time.Second},
	{name: "EndedContext", f: endedContext},
	{name: "ContextEndsWhileWaiting", f: contextEndsWhileWaiting},
	{name: "ContextEndsWhileStarting", f: contextEndsWhileStarting},
	{name: "Deadline", f: deadline},
	{name: "DeadlineWhileStarting", f: deadlineWhileStarting},
	{name: "Keep", f: keep},
	{name: "Closing", f: closing},
	{name: "Bounds", f: bounds},
	{name: "RetryIsNotBounded", f: retryIsNotBounded},
	{name: "Traffic", f: traffic},
}

// errLeftOut is what a check returns that does not apply to a subject.
var errLeftOut = errors.New("left out: the Subject does not say what it needs")

// verdict runs a check, in a bubble if it can, and says what is wrong.
func (c check) verdict(t *testing.T, open func(t *testing.T) Subject) (err error) {
	if c.real > 0 {
		b := &bench{Subject: open(t)}
		done := make(chan error, 1)
		go func() { done <- c.f(b) }()
		select {
		case err := <-done:
			return err
		case <-time.After(c.real):
			return wrong("still under way after %v", c.real)
		}
	}
	defer func() { // the bubble panics if what is left in it waits for ever
		if p := recover(); p != nil && err == nil {
			err = wrong("goroutines are left, or all wait for ever: %v", p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{Subject: open(t)}
		defer func() {
			if p := recover(); p != nil {
				err = wrong("panic: %v", p)
			}
		}()
		err = c.f(b)
		if end := b.end(); err == nil {
			err = end
		}
	})
	return err
}

// prompt is how long something may take that is to happen at once.
const prompt = 100 * time.Millisecond

var background = context.Background()

// plain is work of no particular kind.
var plain = admission.Work{ID: "plain", Tenant: "a", Tokens: 10, Input: 5, Output: 5}

// bench is one check's subject, with the calls made of it.
type bench struct {
	Subject
	calls []*call
}

// end ends the subject and says whether any call went wrong. Room that appears
// now is nobody's: whoever returned must not hear of it.
func (b *bench) end() error {
	for range 3 {
		b.Admitter.Freed()
		time.Sleep(prompt)
	}
	if b.Close != nil {
		b.Close()
	}
	time.Sleep(time.Minute)
	for _, c := range b.calls {
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

// refused says what is wrong with an error that has to be a refusal.
func refused(err error, closing bool) error {
	var e *admission.Error
	if !errors.As(err, &e) {
		return wrong("Admit = %v, want an *admission.Error", err)
	}
	if (e.Reason == admission.Closing) != closing {
		return wrong("Admit = %v, want closing = %v", err, closing)
	}
	return nil
}

// wrong is an error in the words of a failing test.
func wrong(format string, args ...any) error { return fmt.Errorf(format, args...) }
