package tokenize

// merger holds the symbols of one word while pairs of them are merged: always
// the pair of lowest rank, the leftmost of equals. It is scratch space.
type merger struct {
	syms []symbol
	long longMerge
}

// symbol is one symbol of a word, and the pair it forms with the next one.
type symbol struct {
	id   uint32
	rank uint32 // of the pair's merge; none if it has none
	made uint32 // id which that merge makes

	// The rest is for long words only.
	next, prev   int32 // neighbours; prev is gone once the symbol is merged away
	bucket       int32 // bucket that lists the pair, or -1
	after, front int32 // neighbours in the bucket's list
}

const (
	// scanLimit is the number of symbols up to which finding the lowest rank
	// by looking at every pair is the fastest way.
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
	m.rankAll(pairs)
	return m.long.merge(dst, m.syms, pairs)
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
	type short struct{ id, rank, made uint32 }
	var syms [scanLimit]short
	n := len(m.syms)
	syms[0].id = m.syms[0].id
	for i := 1; i < n; i++ {
		syms[i].id = m.syms[i].id
		syms[i-1].rank, syms[i-1].made = pairs.find(syms[i-1].id, syms[i].id)
	}
	syms[n-1].rank = none
	for {
		best, at := none, 0
		for i := range syms[:n] {
			if syms[i].rank < best {
				best, at = syms[i].rank, i
			}
		}
		if best == none {
			break
		}
		syms[at].id = syms[at].made
		copy(syms[at+1:n-1], syms[at+2:n])
		n--
		if at+1 < n {
			syms[at].rank, syms[at].made = pairs.find(syms[at].id, syms[at+1].id)
		} else {
			syms[at].rank = none
		}
		if at > 0 {
			syms[at-1].rank, syms[at-1].made = pairs.find(syms[at-1].id, syms[at].id)
		}
	}
	for i := range syms[:n] {
		dst = append(dst, syms[i].id)
	}
	return dst
}
