package admission

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	// unsure is how far the estimate of a wait must be beyond the deadline
	// before work is refused for it.
	unsure = 2
	// guess is the estimate while the rate is unknown.
	guess = 2 * time.Second
	// longest is the longest Retry-After.
	longest = time.Hour
)

// wait estimates how long work pushed now would wait: behind all that waits
// in higher tiers, and in its own behind its tenant's share of the turns.
func (l *Line) wait(w *Work, weight float64, tr *tier, rate float64) time.Duration {
	ahead := 0
	for _, o := range l.tiers {
		if o.n < tr.n {
			ahead += o.tokens
		}
	}
	mine, others, weights := 0, tr.tokens, weight
	for _, t := range tr.active {
		if t.id == w.Tenant {
			mine = t.tokens
		} else {
			weights += t.weight
		}
	}
	turns := float64(mine+w.Tokens) * weights / weight
	ahead += int(min(turns, float64(others+w.Tokens)))
	return seconds(float64(ahead) / rate)
}

// hopeless reports whether work cannot start before its deadline.
func (l *Line) hopeless(w *Work, weight float64, tr *tier, now time.Time) bool {
	if w.Deadline.IsZero() {
		return false
	}
	left := w.Deadline.Sub(now)
	if left <= 0 {
		return true
	}
	r := l.rate.value(now)
	return l.items > 0 && l.rate.known() && l.wait(w, weight, tr, r) > unsure*left
}

// victim finds the entry to push out for w in a full line, or nil: the last
// one of the tenant that holds most, for its weight, in the lowest tier below
// w's that holds more than its floor, or else in w's own, if that holds more
// than w's tenant would. If w's tier holds less than its floor, higher tiers
// make room too. An entry that frees too little for w is none.
func (l *Line) victim(w *Work, weight float64, tr *tier) *Item {
	f := l.cfg.TierFloor
	entries, tokens := f*float64(l.cfg.MaxWaiting), f*float64(l.cfg.MaxWaitingTokens)
	entitled := float64(tr.items+1) <= entries && float64(tr.tokens+w.Tokens) <= tokens
	for i := len(l.tiers) - 1; i >= 0; i-- {
		o, bound := l.tiers[i], 0.0
		switch {
		case o == tr:
			if t := tr.tenants[w.Tenant]; t != nil {
				bound = float64(t.tokens)
			}
			bound = (bound + float64(w.Tokens)) / weight
		case o.n < tr.n && !entitled:
			return nil
		case float64(o.items) <= entries && float64(o.tokens) <= tokens:
			continue
		}
		if it := o.heaviest(bound); it != nil && l.tokens-it.Tokens+w.Tokens <= l.cfg.MaxWaitingTokens {
			return it
		}
	}
	return nil
}

// heaviest returns the last item, not being tried and no retry, of the tenant
// that holds the most tokens by weight, if more than bound.
func (tr *tier) heaviest(bound float64) *Item {
	var worst *tenant
	for _, t := range tr.active {
		if held := float64(t.tokens) / t.weight; held > bound {
			bound, worst = held, t
		}
	}
	if worst == nil {
		return nil
	}
	for i := len(worst.items) - 1; i >= 0; i-- {
		if it := worst.items[i]; !it.busy && !it.Retry {
			return it
		}
	}
	return nil
}

// refusal makes the error for work turned away now.
func (l *Line) refusal(reason Reason, now time.Time) *Error {
	return &Error{Reason: reason, After: l.retryAfter(now, rand.Float64(), rand.Float64())}
}

// retryAfter spreads the time the line needs to drain by a quarter, and
// rounds so that the mean stays. u and v are from 0 to 1.
func (l *Line) retryAfter(now time.Time, u, v float64) time.Duration {
	drain := guess
	if r := l.rate.value(now); r > 0 && l.tokens > 0 {
		drain = seconds(float64(l.tokens) / r)
	}
	s, frac := math.Modf(drain.Seconds() * (0.75 + u/2))
	if v < frac {
		s++
	}
	return max(time.Duration(s)*time.Second, time.Second)
}

// seconds converts, and bounds the result.
func seconds(s float64) time.Duration {
	if !(s < longest.Seconds()) {
		return longest
	}
	return time.Duration(s * float64(time.Second))
}
