package registry

import (
	"sync"
	"time"
)

// line fits a straight line, start + slope x tokens, through the times to
// first token over the prompt tokens that were pending at dispatch. Its slope
// is the time per token. Its start is waiting for the running step, the step
// itself and the network, which a short prompt pays like a long one: dividing
// time by tokens would make a replica look slower the shorter its prompts
// are. Old samples fade.
type line struct {
	mu           sync.Mutex
	n            float64 // weight of the samples
	x, y, xx, xy float64 // weighted sums; x in tokens, y in seconds
	start, slope float64
}

// belief is what is assumed of a line, and how many samples it counts for.
type belief struct {
	start, slope float64
	weight       float64 // of slope, in tokens squared
}

const (
	lineFade = 1 - 1.0/128
	// Some ten prompts of various lengths outweigh the configuration, some
	// twenty of one replica's what the whole pool does.
	trustConfig = 1e7
	trustPool   = 2e7
	trustStart  = 16 // weight of the believed start, in samples
)

// add takes one sample and fits the line anew: least squares, with b as
// further samples (ridge regression).
func (l *line) add(tokens, seconds float64, b belief) {
	if l.n == 0 {
		l.start, l.slope = b.start, b.slope
	}
	// One request that hung must not outweigh hundreds.
	seconds = min(seconds, learnSwing*(l.start+l.slope*tokens))
	l.n = lineFade*l.n + 1
	l.x = lineFade*l.x + tokens
	l.y = lineFade*l.y + seconds
	l.xx = lineFade*l.xx + tokens*tokens
	l.xy = lineFade*l.xy + tokens*seconds
	n, y := l.n+trustStart, l.y+trustStart*b.start
	xx, xy := l.xx+b.weight, l.xy+b.weight*b.slope
	slope := (n*xy - l.x*y) / (n*xx - l.x*l.x)
	l.slope = clamp(slope, 1.0/maxPrefillRate, 1.0/minPrefillRate)
	l.start = max(0, (y-l.slope*l.x)/n)
}

// learnPrefill takes one observation: the first token came elapsed after
// dispatch, with pending prompt tokens (own included) to compute then. The
// engine computes prompts in order of arrival. An observation is left out
// rather than waited for.
func (r *Replica) learnPrefill(pending int64, elapsed time.Duration) {
	if pending <= 0 || elapsed <= 0 {
		return
	}
	tokens, seconds := float64(pending), elapsed.Seconds()
	pool, own := &r.pool.line, &r.line
	if !pool.mu.TryLock() {
		return
	}
	pool.add(tokens/r.Weight(), seconds, belief{
		start: 1.5 * r.StepTime().Seconds(), slope: 1 / r.config().PrefillRate, weight: trustConfig,
	})
	b := belief{start: pool.start, slope: pool.slope / r.Weight(), weight: trustPool}
	r.pool.speed.prefill.set(1 / pool.slope)
	pool.mu.Unlock()
	if !own.mu.TryLock() {
		return
	}
	own.add(tokens, seconds, b)
	r.speed.prefill.set(1 / own.slope)
	own.mu.Unlock()
}
