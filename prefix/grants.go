package prefix

import (
	"math"
	"slices"
)

// The table's memory is granted to slots in blocks. A slot takes what is free
// as it fills, up to what it wants. When nothing is free, one that has less than
// its fair share takes the rest from those that have more. So a slot that joins
// costs the others only what it needs at the moment, and no call takes longer
// because much is in the table.

// grantStep is how much a slot takes at a time, so that it need not ask often.
const grantStep = pageNodes

// short returns how many blocks s lacks to hold more besides those it has, 0 if
// there is nothing to be had. s.mu is held.
func (t *Table) short(s *slot, more int) int {
	lack := min(s.limit, s.list.n+more) - s.grant
	if lack <= 0 || !s.retired && s.grant >= s.share && t.free.Load() <= 0 {
		return 0
	}
	return lack
}

// provide grants s up to lack blocks more, or some more than that.
func (t *Table) provide(s *slot, lack int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.retired {
		t.enlistLocked(s)
	}
	s.mu.Lock()
	want := min((lack+grantStep-1)/grantStep*grantStep, s.limit-s.grant)
	owed := min(lack, s.share-s.grant)
	s.mu.Unlock()
	got := max(0, min(int64(want), t.free.Load()))
	t.free.Add(-got)
	if rest := int64(owed) - got; rest > 0 {
		got += t.reclaimLocked(rest)
	}
	s.mu.Lock()
	s.grant += int(got)
	s.mu.Unlock()
}

// reclaimLocked takes up to n blocks from slots that have more than their share,
// and returns how many.
func (t *Table) reclaimLocked(n int64) (got int64) {
	for range t.live {
		if got == n {
			break
		}
		t.next = (t.next + 1) % len(t.live)
		s := t.live[t.next]
		s.mu.Lock()
		if over := min(int64(s.grant-s.share), n-got); over > 0 {
			t.confineLocked(s, s.grant-int(over))
			got += over
		}
		s.mu.Unlock()
	}
	return got
}

// confineLocked makes n blocks all that s is granted. s.mu is held.
func (t *Table) confineLocked(s *slot, n int) {
	s.grant = n
	t.evictLocked(s, n)
	s.list.shrink(uint32(n))
}

// giveBack frees what s is granted above its limit.
func (t *Table) giveBack(s *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if over := s.grant - s.limit; over > 0 {
		t.confineLocked(s, s.limit)
		t.free.Add(int64(over))
	}
}

// enlistLocked makes s one of those that share the memory.
func (t *Table) enlistLocked(s *slot) {
	t.live = append(t.live, s)
	s.mu.Lock()
	s.retired = false
	s.mu.Unlock()
	t.divideLocked()
}

// retire takes s out of those that share the memory, unless something was added
// meanwhile.
func (t *Table) retire(s *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	empty := !s.retired && s.list.n == 0
	if empty {
		s.list = recent{}
		s.grant, s.share, s.retired = 0, 0, true
	}
	s.mu.Unlock()
	if empty {
		t.live = slices.DeleteFunc(t.live, func(o *slot) bool { return o == s })
		t.divideLocked()
	}
}

// divideLocked sets what is each slot's share, and what is free. A share is what
// the slot wants, or, if all want more than there is, the same for all who want
// more than that.
func (t *Table) divideLocked() {
	budget := t.budgetLocked()
	level := waterLevel(t.live, budget)
	granted := 0
	for _, s := range t.live {
		s.mu.Lock()
		s.share = min(s.want, level)
		granted += s.grant
		s.mu.Unlock()
	}
	t.free.Store(int64(budget - granted))
	if granted > budget { // another slot needs memory of its own
		t.free.Add(t.reclaimLocked(int64(granted - budget)))
	}
}

// budgetLocked returns how many blocks may be held in all: what is left of the
// memory when every part has its least size.
func (t *Table) budgetLocked() int {
	fixed := int64(len(t.slots)+len(t.planes))*8 + int64(t.made)*slotBytes
	used := make([]bool, len(t.planes))
	for _, s := range t.live {
		used[s.num/planeSlots] = true
		fixed += pageNodes*nodeBytes + segmentCells*entryBytes + listBytes
	}
	fixed += int64(t.madePlanes) * shards * shardBytes
	for _, is := range used {
		if is {
			fixed += shards * (segmentCells*cellBytes + listBytes)
		}
	}
	return int(min(math.MaxInt, max(0, (t.cfg.MaxBytes-fixed)/pairBytes)))
}

// waterLevel returns the most that each slot may have so that all together
// stay within budget when those who want less get what they want.
func waterLevel(live []*slot, budget int) int {
	wants := make([]int, len(live))
	for i, s := range live {
		wants[i] = s.want
	}
	slices.Sort(wants)
	for i, w := range wants {
		rest := len(wants) - i
		if w > budget/rest {
			return budget / rest
		}
		budget -= w
	}
	return math.MaxInt
}
