package scan

import (
	"github.com/expediterhq/expediter/tokenize/internal/class"
	"github.com/expediterhq/expediter/tokenize/internal/pattern"
)

// gpt2 scans GPT2. Every character belongs to some match, so a match starts at
// once.
type gpt2 struct{}

func (gpt2) Next(s string, i int, _ *pattern.Machine) (start, end int, err error) {
	if i >= len(s) {
		return i, i, nil
	}
	if s[i] == '\'' {
		if n := contractionLen(s[i+1:]); n > 0 {
			return i, i + 1 + n, nil
		}
	}
	from := i
	if s[i] == ' ' && i+1 < len(s) {
		from++
	}
	switch cls, n := class.At(s, from); {
	case cls&class.L != 0:
		return i, runOf(s, from+n, class.L), nil
	case cls == class.N:
		return i, runOf(s, from+n, class.N), nil
	case cls != class.Space:
		return i, runOfNot(s, from+n, class.Space|class.L|class.N), nil
	}
	return i, plainSpace(s, i), nil
}

// contractionLen returns the length of the match of s|t|re|ve|m|ll|d at the
// start of s.
func contractionLen(s string) int {
	if s == "" {
		return 0
	}
	switch s[0] {
	case 's', 't', 'm', 'd':
		return 1
	}
	if len(s) > 1 && (s[:2] == "re" || s[:2] == "ve" || s[:2] == "ll") {
		return 2
	}
	return 0
}
