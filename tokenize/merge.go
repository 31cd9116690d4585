package tokenize

// merger holds the symbols of one word while pairs of them are merged: always
// the pair of lowest rank, the leftmost of equals. It is scratch space.
type merger struct {
	syms []symbol
	heap []uint64 // rank in the upper half, position in the lower
}

// symbol is a node of the list of a word's symbols.
type symbol struct {
	id   uint32
	rank uint32 // of the merge with the next symbol, none if there is none
	made uint32 // id which that merge makes
	next int32
	prev int32 // negative at the start, and less than -1 once merged away
}

const (
	// scanLimit is the number of symbols up to which finding the lowest rank
	// by looking at every pair beats a heap.
	scanLimit = 40
	gone      = -2
)

// reset empties the list of symbols.
func (m *merger) reset() { m.syms = m.syms[:0] }

func (m *merger) add(id uint32) { m.syms = append(m.syms, symbol{id: id}) }

// appendMerged merges the symbols as far as they go and appends the ids left.
func (m *merger) appendMerged(dst []uint32, pairs *pairTable) []uint32 {
	switch n := len(m.syms); {
	case n == 0:
		return dst
	case n == 1:
		return append(dst, m.syms[0].id)
	case n <= scanLimit:
		return m.mergeShort(dst, pairs)
	}
	return m.mergeLong(dst, pairs)
}

func (m *merger) rankAll(pairs *pairTable) {
	syms := m.syms
	last := len(syms) - 1
	for i := range syms[:last] {
		syms[i].rank, syms[i].made = pairs.find(syms[i].id, syms[i+1].id)
	}
	syms[last].rank = none
}

// mergeShort keeps the symbols dense: a merge moves what follows to the left.
func (m *merger) mergeShort(dst []uint32, pairs *pairTable) []uint32 {
	m.rankAll(pairs)
	syms := m.syms
	for {
		best, at := none, 0
		for i := range syms {
			if syms[i].rank < best {
				best, at = syms[i].rank, i
			}
		}
		if best == none {
			break
		}
		syms[at].id = syms[at].made
		copy(syms[at+1:], syms[at+2:])
		syms = syms[:len(syms)-1]
		if at+1 < len(syms) {
			syms[at].rank, syms[at].made = pairs.find(syms[at].id, syms[at+1].id)
		} else {
			syms[at].rank = none
		}
		if at > 0 {
			syms[at-1].rank, syms[at-1].made = pairs.find(syms[at-1].id, syms[at].id)
		}
	}
	for i := range syms {
		dst = append(dst, syms[i].id)
	}
	return dst
}

// mergeLong takes pairs from a heap, so that its time grows with n log n.
// Entries that a later merge has outdated stay in the heap: they are known by
// their rank, which is not the pair's any more.
func (m *merger) mergeLong(dst []uint32, pairs *pairTable) []uint32 {
	m.rankAll(pairs)
	syms := m.syms
	m.heap = m.heap[:0]
	for i := range syms {
		syms[i].prev, syms[i].next = int32(i)-1, int32(i)+1
		if syms[i].rank != none {
			m.heap = append(m.heap, uint64(syms[i].rank)<<32|uint64(i))
		}
	}
	m.heapify()
	for len(m.heap) > 0 {
		top := m.heap[0]
		at := int32(uint32(top))
		s := &syms[at]
		if s.prev <= gone || s.rank != uint32(top>>32) {
			m.pop()
			continue
		}
		next := &syms[s.next]
		s.id, s.next = s.made, next.next
		next.prev = gone
		s.rank = none
		if int(s.next) < len(syms) {
			syms[s.next].prev = at
			s.rank, s.made = pairs.find(s.id, syms[s.next].id)
		}
		if s.rank != none {
			m.replaceTop(uint64(s.rank)<<32 | uint64(at))
		} else {
			m.pop()
		}
		if s.prev >= 0 {
			before := &syms[s.prev]
			before.rank, before.made = pairs.find(before.id, s.id)
			if before.rank != none {
				m.push(uint64(before.rank)<<32 | uint64(s.prev))
			}
		}
	}
	for i := 0; i < len(syms); i = int(syms[i].next) {
		dst = append(dst, syms[i].id)
	}
	return dst
}
