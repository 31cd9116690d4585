package admission

import (
	"context"
	"time"
)

// Work is one request to be started.
type Work struct {
	ID       string    // the request's, for an Admitter that tells requests apart; it decides nothing here
	Tenant   string    // whose turn it takes
	Tier     int       // 0 is served first
	Weight   float64   // the tenant's share inside the tier. If not above zero, 1
	Tokens   int       // KV tokens it will claim
	Input    int       // prompt tokens, for the tenant's counter
	Output   int       // expected output tokens, for the tenant's counter
	Deadline time.Time // latest useful start; zero = none
	Arrived  time.Time // decides between equal deadlines. If zero, when it joins the line

	// Keep, if not nil, is called at most once, and never while start is
	// under way, when the work has been passed by as much as it needs itself
	// and has waited long enough. From then on start may set room aside on
	// one replica, and the line leaves it at that. If it is nil, the line
	// limits what others may take: see Config.Backfill.
	Keep func()

	// Retry says that the work was started before and failed through no
	// fault of its own: it is not charged to its tenant again, and the bounds
	// of the line do not apply to it.
	Retry bool
}

// outputWeight is what an output token weighs against a prompt token in the
// tenants' counters, as in the paper.
const outputWeight = 2

// cost is what the work adds to its tenant's counter, before weighting.
func (w *Work) cost() float64 {
	return max(float64(w.Input)+outputWeight*float64(w.Output), 1)
}

// before reports whether a is served before b inside one tenant.
func (a *Item) before(b *Item) bool {
	if !a.Deadline.Equal(b.Deadline) {
		return !a.Deadline.IsZero() && (b.Deadline.IsZero() || a.Deadline.Before(b.Deadline))
	}
	if !a.Arrived.Equal(b.Arrived) {
		return a.Arrived.Before(b.Arrived)
	}
	return a.seq < b.seq
}

// An Admitter decides when a request may start. It is called from many
// goroutines. Package admissiontest checks implementations.
type Admitter interface {
	// Admit calls start until it reports true or fails: at once if nobody
	// waits, and again each time Freed says that there may be room, also when
	// that was while start was under way. It returns nil exactly if start
	// reported true. Otherwise it returns start's error; or ctx's, soon after
	// ctx ends, and without calling start if it has ended already; or an
	// *Error: for Closing if the Admitter no longer serves, for another reason
	// if it turns the work away, at the latest soon after w.Deadline.
	//
	// start reports false if there is no room yet; it is not called again
	// after true or an error, never twice at a time, and neither it nor w.Keep
	// after Admit returned. It may be called on another goroutine, with no
	// lock held that it could need. If ctx or the time ends while it is under
	// way, what it reports still counts, and what it panics with Admit panics
	// with.
	Admit(ctx context.Context, w Work, start func() (bool, error)) error

	// Freed says that room may have appeared. It does not block and may be
	// called from anywhere, start included.
	Freed()
}
