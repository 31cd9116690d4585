package tokenize

import (
	"math/bits"
	"unicode/utf8"
)

// pairTable maps two neighbouring symbols to the rank of their merge and the
// symbol it makes: an open-addressing table. Once built it is read-only.
type pairTable struct {
	slots []pairSlot
	shift uint8
	used  int
	// ascii has the merges of two ASCII characters, which start most words:
	// small enough to stay near. It is nil until index is called.
	ascii *[utf8.RuneSelf][utf8.RuneSelf]merge
}

// merge is the rank of a pair's merge, none if it has none, and the symbol it
// makes.
type merge struct{ rank, id uint32 }

type pairSlot struct {
	left, right uint32 // left is none where the slot is free
	rank, id    uint32
}

// newPairTable returns a table with room for n pairs.
func newPairTable(n int) pairTable {
	size := 16
	for size < n+n/2+1 {
		size *= 2
	}
	t := pairTable{slots: make([]pairSlot, size), shift: uint8(64 - bits.TrailingZeros(uint(size)))}
	for i := range t.slots {
		t.slots[i].left = none
	}
	return t
}

func (t *pairTable) start(left, right uint32) uint64 {
	key := uint64(left)<<32 | uint64(right)
	key ^= key >> 29
	return key * 0x9E3779B97F4A7C15 >> t.shift
}

// put sets the merge of a pair; a later one replaces an earlier one.
func (t *pairTable) put(left, right, rank, id uint32) {
	if 3*t.used >= 2*len(t.slots) {
		old := t.slots
		*t = newPairTable(2 * t.used)
		for _, s := range old {
			if s.left != none {
				t.put(s.left, s.right, s.rank, s.id)
			}
		}
	}
	mask := uint64(len(t.slots) - 1)
	i := t.start(left, right)
	for t.slots[i].left != none && (t.slots[i].left != left || t.slots[i].right != right) {
		i = (i + 1) & mask
	}
	if t.slots[i].left == none {
		t.used++
	}
	t.slots[i] = pairSlot{left, right, rank, id}
}

// find returns the rank and the result of the merge of a pair. The rank is
// none where the pair does not merge.
func (t *pairTable) find(left, right uint32) (rank, id uint32) {
	mask := uint64(len(t.slots) - 1)
	for i := t.start(left, right); ; i = (i + 1) & mask {
		s := &t.slots[i&mask]
		if s.left == left && s.right == right {
			return s.rank, s.id
		}
		if s.left == none {
			return none, 0
		}
	}
}

// index fills the table of merges of ASCII characters, whose symbols it is
// given. The merges must not change afterwards.
func (t *pairTable) index(symbol func(char byte) uint32) {
	t.ascii = new([utf8.RuneSelf][utf8.RuneSelf]merge)
	for l := range byte(utf8.RuneSelf) {
		for r := range byte(utf8.RuneSelf) {
			m := merge{rank: none}
			if left, right := symbol(l), symbol(r); left != none && right != none {
				m.rank, m.id = t.find(left, right)
			}
			t.ascii[l][r] = m
		}
	}
}
