package admission

import (
	"strconv"
	"time"
)

// Reason says why work was turned away.
type Reason uint8

// The reasons.
const (
	QueueFull Reason = iota + 1 // the line was full, or fuller than this tenant's share of it
	Deadline                    // it could not start in time
	Closing                     // the Controller was closed
)

// String names the reason in plain words.
func (r Reason) String() string {
	switch r {
	case QueueFull:
		return "the line is full"
	case Deadline:
		return "the deadline cannot be met"
	case Closing:
		return "closing"
	}
	return "reason " + strconv.Itoa(int(r))
}

// Error is a refusal.
type Error struct {
	Reason Reason        // why
	After  time.Duration // whole seconds, at least one; see RetryAfter
}

// Error says why.
func (e *Error) Error() string { return "admission: " + e.Reason.String() }

// RetryAfter is when the work waiting now will have started, at the rate
// measured, spread by a quarter up and down so that those turned away together
// do not come back together. It is a whole number of seconds, at least one.
func (e *Error) RetryAfter() time.Duration { return max(e.After, time.Second) }
