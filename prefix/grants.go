package prefix

import (
	"math"
	"slices"
)

// The table's memory is granted to slots in runs, each with the most that one may
// take. A slot takes what is free as it fills, up to what it may need. When nothing
// is free, one that has less than its fair share takes the rest from those that
// have more. So a slot that joins costs the others only what it needs at the
// moment, and no call takes longer because much is in the table.

// grantStep is how much a slot takes at a time, so that it need not ask often.
const grantStep = 32

// mayHave reports whether lack runs more can be had for s, or some of them. s.mu
// is held.
func (t *Table) mayHave(s *slot, lack int) bool {
	if s.retired {
		return true
	}
	return s.grant+lack <= runsFor(s.limit) && (s.grant < s.share || t.free.Load() >= int64(lack))
}

// provide grants s up to lack runs more, or some more than that.
func (t *Table) provide(s *slot, lack int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.retired {
		t.enlistLocked(s)
	}
	s.mu.Lock()
	want := min((lack+grantStep-1)/grantStep*grantStep, runsFor(s.limit)-s.grant)
	owed := min(lack, want, s.share-s.grant)
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

// reclaimLocked takes up to n runs from slots that have more than their share,
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

// confineLocked makes n runs all that s is granted. s.mu is held.
func (t *Table) confineLocked(s *slot, n int) {
	s.grant = n
	t.evictRunsLocked(s, n)
	s.list.shrink(uint32(n))
}

// giveBack frees what s is granted and does not use.
func (t *Table) giveBack(s *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if over := s.room() - grantStep; over > 0 {
		t.confineLocked(s, s.grant-over)
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
		s.list = runs{}
		s.grant, s.share, s.retired = 0, 0, true
	}
	s.mu.Unlock()
	if empty {
		t.live = slices.DeleteFunc(t.live, func(o *slot) bool { return o == s })
		t.divideLocked()
	}
}

// divideLocked sets what is each slot's share, and what is free. A share is what
// the slot may need, or, if all may need more than there is, the same for all who
// may need more than that. What has become too much is taken back. Then there may be
// less than it seemed, as records that are not used wait until their page is not,
// and in the end more, when pages have gone.
func (t *Table) divideLocked() {
	rest := max(0, t.cfg.MaxBytes-t.leastLocked())
	t.shareLocked(rest / grantBytes)
	for {
		n := runsIn(rest, t.records.held())
		if n >= int64(t.budget) {
			t.shareLocked(n)
			return
		}
		t.shareLocked(n)
	}
}

// runsIn returns for how many runs there is memory where there are so many records,
// used or not.
func runsIn(bytes int64, records int) int64 {
	n := bytes / grantBytes
	if int64(records) > n {
		return max(0, bytes-int64(records)*recordBytes) / ownBytes
	}
	return n
}

// shareLocked divides runs.
func (t *Table) shareLocked(runs int64) {
	t.budget = int(min(runs, maxBlocks))
	level := waterLevel(t.live, t.budget)
	granted := 0
	for _, s := range t.live {
		s.mu.Lock()
		s.share = min(runsFor(s.want), level)
		granted += s.grant
		s.mu.Unlock()
	}
	t.free.Store(int64(t.budget - granted))
	if granted > t.budget {
		t.free.Add(t.reclaimLocked(int64(granted - t.budget)))
	}
}

// leastLocked returns the memory that the table takes where each slot has one block
// for which there is no record.
func (t *Table) leastLocked() int64 {
	sum := t.fixedLocked() + (sparePages+1)*recordPageBytes
	used := make([]bool, len(t.planes))
	for _, s := range t.live {
		used[s.num/planeSlots] = true
		sum += pageRuns*runBytes + segmentBytes + listBytes
	}
	for _, is := range used {
		if is {
			sum += shards * (segmentBytes + listBytes)
		}
	}
	return sum
}

// fixedLocked returns the memory that does not depend on what is held.
func (t *Table) fixedLocked() int64 {
	return int64(len(t.slots)+len(t.planes))*8 + int64(t.made)*slotBytes +
		int64(t.madePlanes)*shards*shardBytes + int64(len(t.records.pages))*pageMetaBytes
}

// waterLevel returns the most that each slot may have so that all together
// stay within budget when those who want less get what they want.
func waterLevel(live []*slot, budget int) int {
	wants := make([]int, len(live))
	for i, s := range live {
		wants[i] = runsFor(s.want)
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
