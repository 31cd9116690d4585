package tokenize

import (
	"strings"
	"unicode/utf8"
)

// cuts knows where text of a SentencePiece model may be cut into words that
// merge independently: before a mark (the visible space) that follows a
// character which no merge ever joins to a mark. Merging the parts gives the
// same ids as merging the whole, and parts are short and found in caches.
type cuts struct {
	mark  string
	ascii [utf8.RuneSelf]bool // characters that some merge joins to a mark
	other map[rune]bool
}

// newCuts looks for marks inside tokens that merges make, which made yields.
func newCuts(mark string, made func(yield func(token string) bool)) *cuts {
	c := &cuts{mark: mark, other: map[rune]bool{}}
	for token := range made {
		for from := 1; from < len(token); {
			i := strings.Index(token[from:], mark)
			if i < 0 {
				break
			}
			c.join(token[:from+i])
			from += i + len(mark)
		}
	}
	return c
}

// join records that before, a token up to a mark, does not end at a cut.
func (c *cuts) join(before string) {
	r, _ := utf8.DecodeLastRuneInString(before)
	if r < utf8.RuneSelf {
		c.ascii[r] = true
	} else {
		c.other[r] = true
	}
}

func (c *cuts) joined(before string) bool {
	if b := before[len(before)-1]; b < utf8.RuneSelf {
		return c.ascii[b]
	}
	if strings.HasSuffix(before, c.mark) {
		return true
	}
	r, _ := utf8.DecodeLastRuneInString(before)
	return c.other[r]
}

// next returns the length of the first part of s, which is not empty.
func (c *cuts) next(s string) int {
	for from := 1; ; {
		i := strings.Index(s[from:], c.mark)
		if i < 0 {
			return len(s)
		}
		i += from
		if !c.joined(s[:i]) {
			return i
		}
		from = i + len(c.mark)
	}
}
