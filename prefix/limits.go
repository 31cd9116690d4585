package prefix

import (
	"math"
	"slices"
)

// newSlot makes a slot and divides the memory anew.
func (t *Table) newSlot(num int) *slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.slots[num].Load(); s != nil {
		return s
	}
	if t.planes[num/planeSlots].Load() == nil {
		t.planes[num/planeSlots].Store(new(plane))
	}
	s := &slot{num: num, want: t.cfg.Blocks}
	t.live = append(t.live, s)
	t.divideLocked()
	t.slots[num].Store(s)
	return s
}

// SetBlocks says how many blocks the replica's cache has room for. Fewer are
// kept when the table's memory does not suffice for all slots.
func (t *Table) SetBlocks(slot, n int) {
	if slot < 0 || slot >= len(t.slots) || n < 1 {
		return
	}
	s := t.slots[slot].Load()
	if s == nil {
		s = t.newSlot(slot)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.want != n {
		s.want = n
		t.divideLocked()
	}
}

// divideLocked grants each slot what it wants, or, if that is more than there
// is, the same to all who want more than that. Slots whose grant shrinks are
// trimmed before another's grows, so that the bound holds throughout.
func (t *Table) divideLocked() {
	level := waterLevel(t.live, t.budgetLocked())
	for _, grow := range [...]bool{false, true} {
		for _, s := range t.live {
			share := min(s.want, level)
			s.mu.Lock()
			if grow == (share > s.share) && share != s.share {
				s.limit, s.share = share, share
				t.trimLocked(s, s.limit)
			}
			s.mu.Unlock()
		}
	}
}

// budgetLocked returns how many blocks may be held in all: what is left of
// the memory when every part has its least size.
func (t *Table) budgetLocked() int {
	fixed := int64(len(t.slots)+len(t.planes)) * 8
	for i := range t.planes {
		if t.planes[i].Load() != nil {
			fixed += shards * (shardBytes + segmentCells*cellBytes + listBytes)
		}
	}
	fixed += int64(len(t.live)) * (256 + pageNodes*nodeBytes + segmentCells*entryBytes + listBytes)
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

// Bytes returns the memory that the table's contents take now.
func (t *Table) Bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := int64(len(t.slots)+len(t.planes)) * 8
	for _, s := range t.live {
		s.mu.Lock()
		sum += 256 + s.list.bytes()
		s.mu.Unlock()
	}
	for i := range t.planes {
		p := t.planes[i].Load()
		if p == nil {
			continue
		}
		for j := range p.shards {
			sh := &p.shards[j]
			sh.mu.RLock()
			sum += shardBytes + sh.bytes()
			sh.mu.RUnlock()
		}
	}
	return sum
}

// Len returns how many blocks the slot is believed to hold.
func (t *Table) Len(slot int) int {
	if slot < 0 || slot >= len(t.slots) {
		return 0
	}
	s := t.slots[slot].Load()
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list.n
}
