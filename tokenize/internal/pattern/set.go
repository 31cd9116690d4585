package pattern

import (
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/internal/class"
)

// set is a set of code points.
type set struct {
	ascii  [2]uint64 // the answer for ASCII
	ranges []runeRange
	in     class.Set   // members by category
	out    []class.Set // each: members are all code points outside these categories
	negate bool
}

type runeRange struct{ lo, hi rune }

func (c *set) addRune(lo, hi rune) {
	c.ranges = append(c.ranges, runeRange{lo, hi})
}

// addFolded adds an ASCII letter in both cases, and the code points outside
// ASCII that fold to it: the long s and the Kelvin sign.
func (c *set) addFolded(letter rune) {
	lower := letter | 0x20
	c.addRune(lower, lower)
	c.addRune(lower&^0x20, lower&^0x20)
	switch lower {
	case 's':
		c.addRune(0x017F, 0x017F)
	case 'k':
		c.addRune(0x212A, 0x212A)
	}
}

// seal fills the table for ASCII; no member may be added after it.
func (c *set) seal() {
	for r := range rune(utf8.RuneSelf) {
		if c.slow(r) {
			c.ascii[r>>6] |= 1 << (r & 63)
		}
	}
}

func (c *set) slow(r rune) bool {
	return c.member(r) != c.negate
}

func (c *set) member(r rune) bool {
	cls := class.Of(r)
	if cls&c.in != 0 {
		return true
	}
	for _, out := range c.out {
		if cls&out == 0 {
			return true
		}
	}
	for _, rr := range c.ranges {
		if rr.lo <= r && r <= rr.hi {
			return true
		}
	}
	return false
}

// matchAt says whether the rune of s at i is in the set, and its width.
func (c *set) matchAt(s string, i int) (bool, int) {
	if i >= len(s) {
		return false, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return c.ascii[b>>6]>>(b&63)&1 != 0, 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return c.slow(r), n
}

// runFrom returns the end of the run of members of the set in s at i.
func (c *set) runFrom(s string, i int) int {
	for i < len(s) {
		ok, n := c.matchAt(s, i)
		if !ok {
			break
		}
		i += n
	}
	return i
}
