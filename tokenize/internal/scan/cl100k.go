package scan

import (
	"github.com/expediterhq/expediter/tokenize/internal/class"
	"github.com/expediterhq/expediter/tokenize/internal/pattern"
)

// cl100k scans Qwen2 and Llama3, which differ in how many digits make a piece.
// Every character belongs to some match, so a match starts at once.
type cl100k struct{ digits int }

func (c cl100k) Next(s string, i int, _ *pattern.Machine) (start, end int, err error) {
	if i >= len(s) {
		return i, i, nil
	}
	return i, c.match(s, i), nil
}

func (c cl100k) match(s string, i int) int {
	cls, n := class.At(s, i)
	switch {
	case cls&class.L != 0:
		return runOf(s, i+n, class.L)
	case cls == class.N:
		return atMost(s, i+n, c.digits-1, class.N)
	}
	if s[i] == '\'' {
		if m := foldedContraction(s, i); m > 0 {
			return i + m
		}
	}
	next := i + n
	var nextCls class.Set
	if next < len(s) {
		nextCls, n = class.At(s, next)
		if nextCls&class.L != 0 && !isNewline(s[i]) {
			return runOf(s, next+n, class.L)
		}
	}
	if cls != class.Space {
		return symbols(s, next)
	}
	if s[i] == ' ' && next < len(s) && nextCls&(class.Space|class.L|class.N) == 0 {
		return symbols(s, next+n)
	}
	return space(s, i)
}

// symbols matches the rest of [^\s\p{L}\p{N}]+[\r\n]* at i.
func symbols(s string, i int) int {
	return newlines(s, runOfNot(s, i, class.Space|class.L|class.N))
}
