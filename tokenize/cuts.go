package tokenize

import (
	"strings"
	"unicode/utf8"
)

// cuts knows where text of a SentencePiece model may be cut into parts that
// merge independently: between two characters that stand side by side in no
// token that a merge makes. Merging the parts gives the same ids as merging
// the whole, and parts are short and found in caches.
//
// It is exact only if each character of a text becomes at least one symbol of
// its own.
type cuts struct {
	mark string
	// joined has a bit for each pair of characters side by side in some token,
	// as far as both are ASCII or the mark, which is number markChar.
	joined [markChar + 1][3]uint64
	// before has the other characters that stand before a mark in some token.
	before map[rune]bool
}

const (
	markChar  = utf8.RuneSelf
	otherChar = markChar + 1 // any other character

	// cutAfter is the length in bytes from which on a part ends wherever it
	// can. Shorter ones end at marks and line breaks, as words do.
	cutAfter = 32
)

// newCuts looks at the tokens that merges make, which made yields.
func newCuts(mark string, made func(yield func(token string) bool)) *cuts {
	c := &cuts{mark: mark, before: map[rune]bool{}}
	for token := range made {
		prev, n := c.char(token)
		for i := n; i < len(token); i += n {
			var cur int
			if cur, n = c.char(token[i:]); cur < otherChar && prev < otherChar {
				c.joined[prev][cur/64] |= 1 << (cur % 64)
			} else if cur == markChar {
				r, _ := utf8.DecodeLastRuneInString(token[:i])
				c.before[r] = true
			}
			prev = cur
		}
	}
	return c
}

// char returns the number of the first character of s, and its width.
func (c *cuts) char(s string) (char, width int) {
	if b := s[0]; b < utf8.RuneSelf {
		return int(b), 1
	}
	if strings.HasPrefix(s, c.mark) {
		return markChar, len(c.mark)
	}
	_, n := utf8.DecodeRuneInString(s)
	return otherChar, n
}

// next returns the length of the first part of s, which is not empty.
func (c *cuts) next(s string) int {
	prev, i := c.char(s)
	possible := 0 // the last cut that was possible
	for i < len(s) {
		cur, n := int(s[i]), 1
		if cur >= utf8.RuneSelf {
			cur, n = c.char(s[i:])
		}
		switch {
		case cur < otherChar && prev < otherChar:
			if c.joined[prev][cur/64]>>(cur%64)&1 != 0 {
				break
			}
			if cur == markChar || cur == '\n' || prev == '\n' {
				return i
			}
			possible = i
		case cur == markChar:
			if r, _ := utf8.DecodeLastRuneInString(s[:i]); !c.before[r] {
				return i
			}
		}
		i += n
		if i > cutAfter && possible > 0 {
			return possible
		}
		prev = cur
	}
	return len(s)
}
