// Package class says which Unicode general category a code point has, as the
// reference tokenizers see it: Unicode 16.0, whatever version package unicode
// of the Go release in use follows.
package class

import "unicode/utf8"

//go:generate go run ../unicodegen -table class

// Set is a set of categories. A code point has at most one.
type Set uint16

// The categories. Space is the White_Space property; none of its members
// belongs to another category listed here.
const (
	Lu Set = 1 << iota
	Lt
	Lm
	Lo
	Ll
	M
	N
	P
	S
	Space

	// L is every letter.
	L = Lu | Lt | Lm | Lo | Ll
)

// Of returns the category of r, or 0 where it has none of those listed.
func Of(r rune) Set {
	if uint32(r) > 0x10FFFF {
		return 0
	}
	return 1 << blocks[int(index[r>>8])<<8|int(r&0xFF)] >> 1
}

// OfASCII returns the category of an ASCII byte.
func OfASCII(b byte) Set { return ascii[b&0x7F] }

var ascii = func() (sets [utf8.RuneSelf]Set) {
	for b := range sets {
		sets[b] = Of(rune(b))
	}
	return sets
}()

// At decodes the rune of s at i, which must be less than len(s), and returns
// its category and its width in bytes.
func At(s string, i int) (Set, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return OfASCII(b), 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return Of(r), n
}
