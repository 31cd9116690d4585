package admission

import "time"

const (
	// anyway is the number of items tried in one epoch whatever their size: a
	// larger one may still fit where its prefix is cached.
	anyway = 2
	// finely is the number of items tried before sizes are gone through by
	// halves, so that small work behind many sizes is reached.
	finely = 32
	// deep and wide bound the search for work that fits: items of one
	// tenant, and items in all.
	deep, wide = 256, 4096
)

// Next returns the item to try, or nil if none is left to try before Opened
// is called. It returns the same item again until Start, Refuse or Remove.
func (l *Line) Next(now time.Time) *Item {
	l.keep.expire(l, now)
	if it := l.keep.item; it != nil && l.candidate(it, now) {
		return it
	}
	// Tiers that are owed their floor come first, up to what they are owed.
	for i, tr := range l.tiers {
		if i > 0 && tr.credit > 0 && tr.items > 0 {
			if it := l.search(tr, tr.credit, now); it != nil {
				return it
			}
		}
	}
	for _, tr := range l.tiers {
		if it := l.search(tr, -1, now); it != nil {
			return it
		}
	}
	return nil
}

// search finds the first candidate of a tier. If credit is not negative and
// it costs more, there is none.
func (l *Line) search(tr *tier, credit float64, now time.Time) *Item {
	seen := 0
	for _, t := range tr.active {
		for i, it := range t.items {
			if i == deep || seen == wide {
				break
			}
			seen++
			if !l.candidate(it, now) {
				continue
			}
			if credit >= 0 && it.cost() > credit {
				return nil
			}
			return it
		}
	}
	return nil
}

// candidate reports whether trying the item makes sense.
func (l *Line) candidate(it *Item, now time.Time) bool {
	switch {
	case it.refused == l.epoch:
		return false
	case len(l.tried) >= anyway && it.Tokens >= l.smallest:
		return false
	case len(l.tried) >= finely && it.Tokens > l.smallest/2:
		return false
	case !it.Deadline.IsZero() && !it.Deadline.After(now):
		return false
	}
	return l.keep.allows(it, now)
}
