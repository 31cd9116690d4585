package prefix

// Observe compares a belief with what the engine did: when a request was
// sent the slot was believed to hold its first predicted blocks, and the
// engine then found cached of them. A contradiction is an answer below half
// of what was predicted. A negative cached is an answer that does not say it:
// many engines never do, and nothing is learned; from one that has said it
// before it means none.
//
// The third contradiction in a row withdraws everything that was not added
// since the first: the cache was cleared. A smaller shortfall means that the
// replica's cache is smaller than believed, or shared with others: the
// slot's bound shrinks by a tenth, and grows back with answers that agree.
func (t *Table) Observe(slot, predicted, cached int) {
	if slot < 0 || slot >= len(t.slots) || predicted < 1 {
		return
	}
	s := t.slots[slot].Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	t.observeLocked(s, predicted, cached)
	unused := s.room()
	s.mu.Unlock()
	if unused > 2*grantStep {
		t.giveBack(s)
	}
}

func (t *Table) observeLocked(s *slot, predicted, cached int) {
	cached = min(cached, predicted) // so that it cannot overflow
	s.says = s.says || cached >= 0
	if !s.says || s.share+s.grant == 0 { // nothing can be known of a slot without memory
		return
	}
	bound := s.limit
	if !t.mayHave(s, 1) && s.room() == 0 {
		bound = min(bound, s.list.n) // it has no memory for more
	}
	switch {
	case 2*cached < predicted:
		t.doubtLocked(s)
	case cached+1 < predicted: // the engine always computes the last token, so one block may be missing
		s.doubts = 0
		s.limit = max(bound-bound/10, min(s.want, leastLimit))
		t.evictLocked(s, s.limit)
	default:
		s.doubts = 0
		s.limit += min(s.want-s.limit, s.limit/100+1)
	}
}

const (
	maxDoubts  = 3
	leastLimit = 64 // blocks kept however often the engine disagrees
)

func (t *Table) doubtLocked(s *slot) {
	if s.doubts == 0 {
		s.strike = s.stamp
	}
	if s.doubts++; s.doubts < maxDoubts {
		return
	}
	for s.list.n > 0 && int32(s.list.run(s.list.last).stamp-s.strike) <= 0 {
		t.evictRunLocked(s, group)
	}
	s.doubts = 0
}
