package admission

import (
	"math"
	"slices"
	"time"
)

// mostTokens is the largest claim told apart from larger ones. The sum of
// hundreds of them fits into an int of 32 bits, of millions into one of 64.
const mostTokens = min(1<<40, math.MaxInt>>8)

// Item is one entry of a Line.
type Item struct {
	Work
	Value any // the caller's own

	seq     uint64
	tier    *tier
	tenant  *tenant
	refused uint64    // epoch in which it did not fit
	first   time.Time // when it first did not fit
	passed  int64     // tokens started past it since
	busy    bool      // being tried: must not be pushed out
	kept    time.Time // when keeping room for it was given up
}

// A Line is the order in which work starts. It is not safe for concurrent
// use. Time is whatever the caller says; it must not go backwards.
//
// The caller pushes work, and whenever room may have appeared calls Opened,
// then Next, and for each item returned either Start or Refuse, until Next
// returns nil.
type Line struct {
	cfg    Config
	tiers  []*tier // by number
	items  int
	tokens int
	seq    uint64
	rate   rate

	epoch    uint64
	tried    []*Item // refused in this epoch
	smallest int     // tokens of the smallest of them
	keep     keep
}

// NewLine returns an empty line. The error names every mistake in cfg.
func NewLine(cfg Config) (*Line, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Line{cfg: cfg.withDefaults(), epoch: 1, smallest: math.MaxInt}, nil
}

// Len is the number of entries.
func (l *Line) Len() int { return l.items }

// Tokens is the KV tokens of all entries.
func (l *Line) Tokens() int { return l.tokens }

// Push adds work. If the line is full it is refused with an *Error, or
// another entry is pushed out for it: one of a lower tier, or of a tenant
// that holds more of the line. Work that cannot be served before its deadline
// at the measured rate is refused too.
func (l *Line) Push(w Work, now time.Time) (it, pushedOut *Item, err error) {
	if w.Arrived.IsZero() {
		w.Arrived = now
	}
	w.Tokens = min(max(w.Tokens, 1), mostTokens)
	weight := w.Weight
	if !(weight > 0) || math.IsInf(weight, 0) {
		weight = 1
	}
	tr := l.tierOf(w.Tier)
	if !w.Retry {
		if l.hopeless(&w, weight, tr, now) {
			return nil, nil, l.refusal(Deadline, now)
		}
		if l.items >= l.cfg.MaxWaiting || l.tokens+w.Tokens > l.cfg.MaxWaitingTokens {
			pushedOut = l.victim(&w, weight, tr)
			if pushedOut == nil {
				return nil, nil, l.refusal(QueueFull, now)
			}
			l.Remove(pushedOut, now)
		}
	}
	if l.items == 0 {
		l.rate.begin(now)
		l.Opened()
	}
	l.seq++
	it = &Item{Work: w, seq: l.seq, tier: tr}
	tr.join(it, weight, l.seq)
	l.items++
	l.tokens += w.Tokens
	return it, pushedOut, nil
}

// Start takes an item that has started out of the line, and charges it.
func (l *Line) Start(it *Item, now time.Time) {
	for _, o := range l.tried {
		o.passed += int64(it.Tokens)
	}
	l.keep.spend(it)
	if !it.Retry {
		it.tier.charge(it)
	}
	cost := it.cost()
	it.tier.credit = max(it.tier.credit-cost, 0)
	l.grant(it.tier, cost)
	l.Freed(it.Tokens, now)
	l.Remove(it, now)
}

// Refuse says that an item did not fit. It is not a candidate again before
// Opened is called.
func (l *Line) Refuse(it *Item, now time.Time) {
	it.refused = l.epoch
	if it.first.IsZero() {
		it.first = now
	}
	l.smallest = min(l.smallest, it.Tokens)
	l.tried = append(l.tried, it)
	l.consider(it, now)
}

// Remove takes an item out without starting it.
func (l *Line) Remove(it *Item, now time.Time) {
	it.tier.leave(it)
	l.items--
	l.tokens -= it.Tokens
	l.keep.drop(it)
	if i := slices.Index(l.tried, it); i >= 0 {
		l.tried = slices.Delete(l.tried, i, i+1)
	}
	if l.items == 0 {
		l.rate.end(now)
	}
}

// Opened says that room may have appeared: whatever did not fit may be tried
// again.
func (l *Line) Opened() {
	l.epoch++
	clear(l.tried)
	l.tried = l.tried[:0]
	l.smallest = math.MaxInt
}

// Freed counts KV tokens that became free while somebody waits. Start counts
// what it takes, which in a busy pool is the same; call Freed only for room
// that something else took.
func (l *Line) Freed(tokens int, now time.Time) { l.rate.add(tokens, now) }

// FreeRate is the measured rate at which room appears, in tokens per second,
// zero if unknown.
func (l *Line) FreeRate(now time.Time) float64 { return l.rate.value(now) }

// Expired removes and returns the items whose deadline is not after now.
func (l *Line) Expired(now time.Time) []*Item {
	var gone []*Item
	for _, tr := range l.tiers {
		for _, t := range tr.active {
			for _, it := range t.items {
				if it.Deadline.IsZero() || it.Deadline.After(now) {
					break
				}
				gone = append(gone, it)
			}
		}
	}
	for _, it := range gone {
		l.Remove(it, now)
	}
	return gone
}

// Items returns all entries in no particular order.
func (l *Line) Items() []*Item {
	all := make([]*Item, 0, l.items)
	for _, tr := range l.tiers {
		for _, t := range tr.active {
			all = append(all, t.items...)
		}
	}
	return all
}

func (l *Line) tierOf(n int) *tier {
	i, ok := slices.BinarySearchFunc(l.tiers, n, func(t *tier, n int) int { return t.n - n })
	if !ok {
		l.tiers = slices.Insert(l.tiers, i, &tier{n: n, tenants: make(map[string]*tenant)})
	}
	return l.tiers[i]
}

// grant gives tiers below one that started work the credit for their floor.
func (l *Line) grant(started *tier, cost float64) {
	f := l.cfg.TierFloor
	for _, tr := range l.tiers {
		if tr.n > started.n && tr.items > 0 {
			tr.credit = min(tr.credit+cost*f/(1-f), 2*max(tr.head().cost(), cost))
		}
	}
}
