package scan

import (
	"github.com/expediterhq/expediter/tokenize/internal/class"
	"github.com/expediterhq/expediter/tokenize/internal/pattern"
)

// o200k scans O200k and Tekken, which differ in digits and contractions.
// Every character belongs to some match, so a match starts at once.
type o200k struct {
	digits       int
	contractions bool
}

const (
	upper = class.Lu | class.Lt | class.Lm | class.Lo | class.M
	lower = class.Ll | class.Lm | class.Lo | class.M
)

func (o o200k) Next(s string, i int, _ *pattern.Machine) (start, end int, err error) {
	if i >= len(s) {
		return i, i, nil
	}
	return i, o.match(s, i), nil
}

func (o o200k) match(s string, i int) int {
	cls, n := class.At(s, i)
	if cls == class.N {
		return atMost(s, i+n, o.digits-1, class.N)
	}
	next := i + n
	if cls&class.L != 0 {
		return o.suffix(s, word(s, i))
	}
	if !isNewline(s[i]) {
		if end := o.prefixed(s, i, next, cls); end > 0 {
			return o.suffix(s, end)
		}
	}
	if cls != class.Space {
		return symbolsOrSlash(s, next)
	}
	if s[i] == ' ' && next < len(s) {
		if nextCls, m := class.At(s, next); nextCls&(class.Space|class.L|class.N) == 0 {
			return symbolsOrSlash(s, next+m)
		}
	}
	return space(s, i)
}

// prefixed matches the two word alternatives at i, where the character before
// next is neither a letter, a number nor a line break, so that it may be the
// word's optional first character. It returns 0 where neither matches. A mark
// may be that first character as well as the first of the word proper, so the
// alternatives are tried in the pattern's order.
func (o o200k) prefixed(s string, i, next int, cls class.Set) int {
	if end := wordWithLower(s, next); end > 0 {
		return end
	}
	if cls == class.M {
		return wordWithLower(s, i) // at least the mark itself
	}
	if end := runOf(s, next, upper); end > next {
		return end
	}
	return 0
}

// word matches [upper]*[lower]+ or else [upper]+[lower]* at i, where s has a
// letter.
func word(s string, i int) int {
	if end := wordWithLower(s, i); end > 0 {
		return end
	}
	return runOf(s, i, upper)
}

// wordWithLower matches [upper]*[lower]+ at i and returns its end, or 0. Where
// no lower character follows the run of upper ones, the match gives back
// characters up to the last that is both.
func wordWithLower(s string, i int) int {
	both := 0
	for i < len(s) {
		cls, n := class.At(s, i)
		if cls&upper == 0 {
			if cls&lower != 0 {
				return runOf(s, i+n, lower)
			}
			break
		}
		i += n
		if cls&lower != 0 {
			both = i
		}
	}
	return both
}

func (o o200k) suffix(s string, end int) int {
	if o.contractions && end < len(s) && s[end] == '\'' {
		return end + foldedContraction(s, end)
	}
	return end
}

// symbolsOrSlash matches the rest of [^\s\p{L}\p{N}]+[\r\n/]* at i.
func symbolsOrSlash(s string, i int) int {
	i = runOfNot(s, i, class.Space|class.L|class.N)
	for i < len(s) && (isNewline(s[i]) || s[i] == '/') {
		i++
	}
	return i
}
