package admission

import (
	"math"
	"time"
)

// memory is how long the measured rate remembers.
const memory = 10 * time.Second

// A rate measures tokens per second while somebody waits, with exponentially
// fading memory. Time in which nobody waited does not count: what is free and
// not wanted says nothing about how fast room appears.
type rate struct {
	tokens, span float64 // faded; span in seconds
	last         time.Time
	running      bool
}

// pass lets time go by.
func (r *rate) pass(now time.Time) {
	if !r.running {
		return
	}
	dt := now.Sub(r.last).Seconds()
	if dt <= 0 {
		return
	}
	f := math.Exp(-dt / memory.Seconds())
	r.tokens *= f
	r.span = r.span*f + dt
	r.last = now
}

// begin starts the clock: somebody waits.
func (r *rate) begin(now time.Time) { r.last, r.running = now, true }

// end stops it.
func (r *rate) end(now time.Time) {
	r.pass(now)
	r.running = false
}

// add counts tokens that became free.
func (r *rate) add(tokens int, now time.Time) {
	r.pass(now)
	if r.running {
		r.tokens += float64(tokens)
	}
}

// value is the rate in tokens per second; zero if unknown.
func (r *rate) value(now time.Time) float64 {
	r.pass(now)
	if r.span < 0.05 {
		return 0
	}
	return r.tokens / r.span
}

// known reports whether the rate was measured for long enough to refuse
// somebody because of it.
func (r *rate) known() bool { return r.span >= 2 && r.tokens > 0 }
