package scan

import (
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/internal/class"
	"github.com/expediterhq/expediter/tokenize/internal/pattern"
)

// numbers scans for runs of numbers of at most most characters; a negative
// most sets no bound.
type numbers struct{ most int }

func (d numbers) Next(s string, i int, _ *pattern.Machine) (start, end int, err error) {
	i = runOfNot(s, i, class.N)
	if d.most < 0 {
		return i, runOf(s, i, class.N), nil
	}
	return i, atMost(s, i, d.most, class.N), nil
}

// cjk scans CJKRuns.
type cjk struct{}

func (cjk) Next(s string, i int, _ *pattern.Machine) (start, end int, err error) {
	for i < len(s) {
		n := cjkAt(s, i)
		if n > 0 {
			break
		}
		i++
		for i < len(s) && s[i] < 0xE3 { // no lead byte of the class is below
			i++
		}
	}
	end = i
	for end < len(s) {
		n := cjkAt(s, end)
		if n == 0 {
			break
		}
		end += n
	}
	return i, end, nil
}

// cjkAt returns the width of the rune at i if it is in the class, or 0.
func cjkAt(s string, i int) int {
	if s[i] < 0xE3 {
		return 0
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	if r >= 0x3040 && r <= 0x30FF || r >= 0x4E00 && r <= 0x9FA5 {
		return n
	}
	return 0
}

// deepSeek scans DeepSeek. Control characters, unassigned ones and numbers
// match no alternative unless a letter follows.
type deepSeek struct{}

func (d deepSeek) Next(s string, i int, _ *pattern.Machine) (start, end int, err error) {
	for i < len(s) {
		cls, n := class.At(s, i)
		if end := d.match(s, i, cls, n); end > 0 {
			return i, end, nil
		}
		i += n
	}
	return i, i, nil
}

const letters = class.L | class.M

// match returns the end of the match at i, where s has a character of the
// given category and width, or 0.
func (deepSeek) match(s string, i int, cls class.Set, n int) int {
	if cls&letters != 0 {
		return runOf(s, i+n, letters)
	}
	next := i + n
	var nextCls class.Set
	if next < len(s) {
		nextCls, n = class.At(s, next)
	}
	if cls&(class.P|class.S) != 0 {
		if s[i] < utf8.RuneSelf && next < len(s) && isASCIILetter(s[next]) {
			return asciiLetters(s, next+1)
		}
		return newlines(s, runOf(s, next, class.P|class.S))
	}
	if nextCls&letters != 0 && !isNewline(s[i]) {
		return runOf(s, next+n, letters)
	}
	if s[i] == ' ' && nextCls&(class.P|class.S) != 0 {
		return newlines(s, runOf(s, next+n, class.P|class.S))
	}
	if cls == class.Space {
		return space(s, i)
	}
	return 0
}

func isASCIILetter(b byte) bool {
	b |= 0x20
	return b >= 'a' && b <= 'z'
}

func asciiLetters(s string, i int) int {
	for i < len(s) && isASCIILetter(s[i]) {
		i++
	}
	return i
}
