package tokenize

import "unicode/utf8"

// merger holds the symbols of one word while pairs of them are merged: always
// the pair of lowest rank, the leftmost of equals. It is scratch space.
type merger struct {
	syms []symbol
	last byte // the character of the last symbol if it is ASCII, else otherByte
	long longMerge
}

// otherByte stands for what is not one ASCII character.
const otherByte = 0xFF

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

// add appends a symbol, and ranks the pair it makes with the one before. char
// is the symbol's character if that is ASCII, else otherByte.
func (m *merger) add(id uint32, char byte, pairs *pairTable) {
	if n := len(m.syms); n > 0 {
		s := &m.syms[n-1]
		if char < utf8.RuneSelf && m.last < utf8.RuneSelf && pairs.ascii != nil {
			p := pairs.ascii[m.last][char]
			s.rank, s.made = p.rank, p.id
		} else {
			s.rank, s.made = pairs.find(s.id, id)
		}
	}
	m.syms = append(m.syms, symbol{id: id, rank: none})
	m.last = char
}

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
	return m.long.merge(dst, m.syms, pairs)
}

// mergeShort keeps the symbols dense: a merge moves what follows to the left.
func (m *merger) mergeShort(dst []uint32, pairs *pairTable) []uint32 {
	type short struct{ id, rank, made uint32 }
	var syms [scanLimit]short
	n := len(m.syms)
	for i := range m.syms {
		syms[i] = short{m.syms[i].id, m.syms[i].rank, m.syms[i].made}
	}
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
