// Package nfc brings text into Unicode normalization form C with the tables of
// Unicode 9.0, which is what the reference tokenizers normalize with. Code
// points assigned later count as starters that neither decompose nor compose.
package nfc

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

//go:generate go run ../unicodegen -table nfc

// Buffer is scratch space that Append reuses from call to call. The zero value
// is ready to use. It must not be used by two calls at once.
type Buffer struct {
	runes []classed
}

type classed struct {
	r     rune
	class byte
}

type classRange struct {
	lo, hi rune
	class  byte
}

type decomposition struct {
	r  rune
	to string
}

type composition struct {
	first, second, to rune
}

// Quick returns the length of the longest prefix of s that is certain to be a
// prefix of the normalized s. It is len(s) where s needs no normalization.
// The rest, s[Quick(s):], may still turn out to be normalized already.
func Quick(s string) int {
	start := 0 // of the last rune that cannot be changed by what follows
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			start = i
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if maybeUnsafe(r) {
			return start
		}
		start = i
		i += n
	}
	return len(s)
}

// Append appends the normalized s, which must be valid UTF-8, to dst. The time
// it takes grows with n log n at worst, in the length of s.
func Append(dst []byte, s string, b *Buffer) []byte {
	for s != "" {
		n := Quick(s)
		dst = append(dst, s[:n]...)
		s = s[n:]
		if s == "" {
			break
		}
		n = segment(s)
		dst = b.appendSegment(dst, s[:n])
		s = s[n:]
	}
	return dst
}

// segment returns the length of the leading part of s that is normalized as a
// whole: its first rune and all unsafe runes that follow.
func segment(s string) int {
	_, i := utf8.DecodeRuneInString(s)
	for i < len(s) && s[i] >= utf8.RuneSelf {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !maybeUnsafe(r) {
			break
		}
		i += n
	}
	return i
}

func maybeUnsafe(r rune) bool {
	return unsafeBlocks[int(unsafeIndex[r>>8])<<5|int(r>>3&31)]>>(r&7)&1 != 0
}

func (b *Buffer) appendSegment(dst []byte, s string) []byte {
	b.runes = b.runes[:0]
	for _, r := range s {
		b.decompose(r)
	}
	b.reorder()
	b.compose()
	for _, c := range b.runes {
		dst = utf8.AppendRune(dst, c.r)
	}
	return dst
}

// Constants of the arithmetic composition of Hangul syllables, Unicode
// Standard section 3.12.
const (
	hangulS, hangulL, hangulV, hangulT = 0xAC00, 0x1100, 0x1161, 0x11A7
	countL, countV, countT             = 19, 21, 28
	countS                             = countL * countV * countT
)

func (b *Buffer) decompose(r rune) {
	if s := r - hangulS; s >= 0 && s < countS {
		b.runes = append(b.runes, classed{r: hangulL + s/(countV*countT)}, classed{r: hangulV + s%(countV*countT)/countT})
		if t := s % countT; t != 0 {
			b.runes = append(b.runes, classed{r: hangulT + t})
		}
		return
	}
	i, ok := slices.BinarySearchFunc(decompositions[:], r, func(d decomposition, r rune) int { return cmp.Compare(d.r, r) })
	if !ok {
		b.runes = append(b.runes, classed{r, combiningClass(r)})
		return
	}
	for _, d := range decompositions[i].to {
		b.runes = append(b.runes, classed{d, combiningClass(d)})
	}
}

func combiningClass(r rune) byte {
	i, ok := slices.BinarySearchFunc(classRanges[:], r, func(c classRange, r rune) int {
		switch {
		case c.hi < r:
			return -1
		case c.lo > r:
			return 1
		}
		return 0
	})
	if !ok {
		return 0
	}
	return classRanges[i].class
}

// reorder sorts each run of non-starters by combining class and keeps the
// order of equals.
func (b *Buffer) reorder() {
	runes := b.runes
	for i := 0; i < len(runes); i++ {
		if runes[i].class == 0 {
			continue
		}
		j := i + 1
		for j < len(runes) && runes[j].class != 0 {
			j++
		}
		slices.SortStableFunc(runes[i:j], func(x, y classed) int { return cmp.Compare(x.class, y.class) })
		i = j
	}
}

// compose joins each starter with the runes after it that it composes with and
// that no rune between them blocks.
func (b *Buffer) compose() {
	runes := b.runes
	out := 0
	starter := -1
	last := 0 // class of the rune kept last after the starter, plus one; 0: none
	for _, c := range runes {
		if starter >= 0 && last <= int(c.class) {
			if to, ok := composePair(runes[starter].r, c.r); ok {
				runes[starter].r = to
				continue
			}
		}
		if c.class == 0 {
			starter, last = out, 0
		} else {
			last = int(c.class) + 1
		}
		runes[out] = c
		out++
	}
	b.runes = runes[:out]
}

func composePair(a, c rune) (rune, bool) {
	if l := a - hangulL; l >= 0 && l < countL {
		if v := c - hangulV; v >= 0 && v < countV {
			return hangulS + (l*countV+v)*countT, true
		}
	}
	if s := a - hangulS; s >= 0 && s < countS && s%countT == 0 {
		if t := c - hangulT; t > 0 && t < countT {
			return a + t, true
		}
	}
	i, ok := slices.BinarySearchFunc(compositions[:], composition{first: a, second: c}, func(x, y composition) int {
		return cmp.Or(cmp.Compare(x.first, y.first), cmp.Compare(x.second, y.second))
	})
	if !ok {
		return 0, false
	}
	return compositions[i].to, true
}
