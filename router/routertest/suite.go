package routertest

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/expediterhq/expediter/router"
)

// Subject is a Scorer under test.
type Subject struct {
	Scorer router.Scorer
	// Varies says that the same question may get another answer the next
	// time, as from a rule that takes turns or draws lots. What costs ought
	// to be is then checked less closely.
	Varies bool
	// Allocates says that a Pick with this Scorer may allocate memory.
	Allocates bool
	// Value makes what the Scorer finds in Request.Value. If nil, it is nil.
	Value func() any
}

// Run checks the subjects that newSubject returns. Each must be new, and equal
// to the others.
func Run(t *testing.T, newSubject func(t *testing.T) Subject) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			switch err := c.verdict(t, newSubject); {
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
}

var checks = []check{
	{"Numbers", numbers},
	{"Adds", adds},
	{"KeepsNever", keepsNever},
	{"StaysInside", staysInside},
	{"LeavesRequest", leavesRequest},
	{"LeavesReplicas", leavesReplicas},
	{"KeepsNoArguments", keepsNoArguments},
	{"SameAgain", sameAgain},
	{"OrderOfReplicas", orderOfReplicas},
	{"DoesNotBlock", doesNotBlock},
	{"Concurrent", concurrent},
	{"InRouter", inRouter},
	{"Allocations", allocations},
}

// errLeftOut is what a check returns that does not apply to a subject.
var errLeftOut = errors.New("left out: the Subject says that this may be")

// bench is one check's subject, and how to make an equal one.
type bench struct {
	Subject
	fresh func() Subject
}

// verdict runs a check in a bubble, where only a Scorer that waits takes any
// time, and says what is wrong.
func (c check) verdict(t *testing.T, newSubject func(t *testing.T) Subject) (err error) {
	defer func() { // the bubble panics if all in it wait for ever
		if p := recover(); p != nil && err == nil {
			err = fmt.Errorf("goroutines are left, or all wait for ever: %v", p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{Subject: newSubject(t), fresh: func() Subject { return newSubject(t) }}
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		err = c.f(b)
	})
	return err
}

// wrong is an error in the words of a failing test.
func wrong(format string, args ...any) error { return fmt.Errorf(format, args...) }
