package quota

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Verdict is a store's answer to a Reserve.
type Verdict uint8

// The verdicts.
const (
	OK              Verdict = iota
	Duplicate               // the id is held by another Reserve; nothing was taken
	Settled                 // the id has been settled; nothing was taken
	OverQuota               // a window has no room now
	OverConcurrency         // the tenant has all its slots in use
	Never                   // the cost is larger than a window's burst: it can never fit
	Bad                     // the reservation itself is wrong
)

var verdicts = [...]string{"ok", "duplicate", "settled", "over quota", "over concurrency", "never", "bad"}

// String returns the verdict in lower-case words.
func (v Verdict) String() string {
	if int(v) < len(verdicts) {
		return verdicts[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// LimitError says why a reservation was not made. Nothing was taken.
type LimitError struct {
	Verdict Verdict
	ID      string // the reservation's
	Window  string // the window that has no room, for OverQuota and Never
	Limit   int64  // its burst in priced tokens, or the slots for OverConcurrency
	Cost    int64  // what was asked for, in priced tokens
	// After is the least wait until it can fit if nobody else spends; 0 = no time can
	// be named. Nobody knows when a request that is running will end, so for
	// OverConcurrency it is a second: a time to ask again, and no promise.
	After  time.Duration
	Detail string // for Bad: the field and what was expected
}

// Error returns the reason with the limit, in words fit for the caller.
func (e *LimitError) Error() string {
	switch e.Verdict {
	case Never:
		return fmt.Sprintf("quota: cost of %d tokens is above the limit of %d of window %q", e.Cost, e.Limit, e.Window)
	case OverQuota:
		if e.After == 0 {
			return fmt.Sprintf("quota: window %q of %d tokens is used up", e.Window, e.Limit)
		}
		return fmt.Sprintf("quota: window %q of %d tokens has no room for %d, retry in %v", e.Window, e.Limit, e.Cost, e.RetryAfter())
	case OverConcurrency:
		return fmt.Sprintf("quota: all %d concurrent requests are in use", e.Limit)
	case Duplicate:
		return "quota: duplicate reservation id"
	case Settled:
		return "quota: reservation id is already settled"
	case Bad:
		return "quota: " + e.Detail
	}
	return "quota: " + e.Verdict.String()
}

// CanFit reports whether the same request, made again later under a new id,
// could be let through.
func (e *LimitError) CanFit() bool { return e.After > 0 }

// RetryAfter returns when to try again: After in whole seconds, rounded up, at
// least one, and up to a quarter more depending on the id, so that refused
// callers do not all return in the same second. It is 0 when CanFit is false.
func (e *LimitError) RetryAfter() time.Duration {
	if e.After <= 0 {
		return 0
	}
	s := (e.After + time.Second - 1) / time.Second
	h := uint32(2166136261) // FNV-1a
	for i := 0; i < len(e.ID); i++ {
		h = (h ^ uint32(e.ID[i])) * 16777619
	}
	h ^= h >> 15
	return (s + time.Duration(h)%(2+s/4)) * time.Second
}

// ErrUnavailable is matched by every UnavailableError.
var ErrUnavailable = errors.New("quota: store unavailable")

// UnavailableError says that the store could not be asked and the policy is to
// refuse.
type UnavailableError struct {
	After time.Duration // when to try again
	Err   error         // the private cause; may be nil
}

// Error returns the condition without its cause, which can name addresses.
func (e *UnavailableError) Error() string { return ErrUnavailable.Error() }

// LogValue returns the condition with its cause: a log is for operators, who
// need to know which address does not answer and why.
func (e *UnavailableError) LogValue() slog.Value {
	if e.Err == nil {
		return slog.StringValue(e.Error())
	}
	return slog.StringValue(e.Error() + ": " + e.Err.Error())
}

// Unwrap returns ErrUnavailable and the cause.
func (e *UnavailableError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrUnavailable}
	}
	return []error{ErrUnavailable, e.Err}
}

// RetryAfter returns After in whole seconds, rounded up, at least one.
func (e *UnavailableError) RetryAfter() time.Duration {
	return max((e.After+time.Second-1)/time.Second, 1) * time.Second
}
