// Package scan splits text into the pieces that byte pair encoding works on.
// The patterns of the well-known model families have scanners written by hand;
// any other pattern goes to package pattern.
package scan

import (
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/internal/class"
	"github.com/expediterhq/expediter/tokenize/internal/pattern"
)

// Scanner finds the matches of one pattern. It is immutable and safe for
// concurrent use; what changes during a scan is in the Machine.
type Scanner interface {
	// Next returns the leftmost match in s at or after i, or len(s) twice.
	// The text around s does not exist for it, so that lookahead sees the end
	// of s as the end of the text.
	Next(s string, i int, m *pattern.Machine) (start, end int, err error)
}

// The patterns with a scanner of their own, as tokenizer files spell them.
const (
	GPT2        = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	contraction = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	words       = `[^\r\n\p{L}\p{N}]?\p{L}+`
	rest        = ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	Qwen2       = contraction + `|` + words + `|\p{N}|` + rest
	Llama3      = contraction + `|` + words + `|\p{N}{1,3}|` + rest
	upperWord   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	lowerWord   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	slashRest   = ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	O200k       = upperWord + contraction + `?|` + lowerWord + contraction + `?|\p{N}{1,3}|` + slashRest
	Tekken      = upperWord + `|` + lowerWord + `|\p{N}|` + slashRest
	Digits      = `\p{N}`
	DigitRuns   = `\p{N}+`
	Digits3     = `\p{N}{1,3}`
	CJKRuns     = `[一-龥぀-ゟ゠-ヿ]+`
	DeepSeek    = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

// For returns the scanner for a pattern: one written by hand where the pattern
// equals a known one to the letter, a general matcher otherwise. The error, of
// type *pattern.SyntaxError, says what in the pattern is not supported.
func For(src string) (Scanner, error) {
	switch src {
	case GPT2:
		return gpt2{}, nil
	case Qwen2:
		return cl100k{digits: 1}, nil
	case Llama3:
		return cl100k{digits: 3}, nil
	case O200k:
		return o200k{digits: 3, contractions: true}, nil
	case Tekken:
		return o200k{digits: 1}, nil
	case Digits:
		return numbers{most: 1}, nil
	case DigitRuns:
		return numbers{most: -1}, nil
	case Digits3:
		return numbers{most: 3}, nil
	case CJKRuns:
		return cjk{}, nil
	case DeepSeek:
		return deepSeek{}, nil
	}
	return pattern.Compile(src)
}

// runOf returns the end of the run of s at i whose categories are in set.
func runOf(s string, i int, set class.Set) int {
	for i < len(s) {
		if b := s[i]; b < utf8.RuneSelf {
			if class.OfASCII(b)&set == 0 {
				break
			}
			i++
			continue
		}
		c, n := class.At(s, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	return i
}

// runOfNot returns the end of the run of s at i whose categories are not in set.
func runOfNot(s string, i int, set class.Set) int {
	for i < len(s) {
		c, n := class.At(s, i)
		if c&set != 0 {
			break
		}
		i += n
	}
	return i
}

// atMost is runOf over at most most characters.
func atMost(s string, i, most int, set class.Set) int {
	for range most {
		if i >= len(s) {
			break
		}
		c, n := class.At(s, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	return i
}

func isNewline(b byte) bool { return b == '\r' || b == '\n' }

// newlines returns the end of the run of \r and \n at i.
func newlines(s string, i int) int {
	for i < len(s) && isNewline(s[i]) {
		i++
	}
	return i
}

// space matches \s*[\r\n]+|\s+(?!\S)|\s+ at i, where s has a space character.
func space(s string, i int) int {
	end, lastStart, afterNewline := i, i, -1
	for end < len(s) {
		c, n := class.At(s, end)
		if c != class.Space {
			break
		}
		lastStart = end
		end += n
		if isNewline(s[lastStart]) {
			afterNewline = end
		}
	}
	if afterNewline >= 0 {
		return afterNewline
	}
	return spaceBefore(s, i, lastStart, end)
}

// plainSpace matches \s+(?!\S)|\s+ at i, where s has a space character.
func plainSpace(s string, i int) int {
	end, lastStart := i, i
	for end < len(s) {
		c, n := class.At(s, end)
		if c != class.Space {
			break
		}
		lastStart = end
		end += n
	}
	return spaceBefore(s, i, lastStart, end)
}

// spaceBefore leaves the last character of a run of spaces to the word that
// follows, unless it is the only one.
func spaceBefore(s string, i, lastStart, end int) int {
	if end < len(s) && lastStart > i {
		return lastStart
	}
	return end
}

// foldedContraction returns the length of the match of
// (?i:'s|'t|'re|'ve|'m|'ll|'d) at i, or 0. s has an apostrophe at i.
func foldedContraction(s string, i int) int {
	rest := s[i+1:]
	if rest == "" {
		return 0
	}
	switch rest[0] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if len(rest) > 1 && rest[1]|0x20 == 'e' {
			return 3
		}
	case 'l':
		if len(rest) > 1 && rest[1]|0x20 == 'l' {
			return 3
		}
	}
	if len(rest) > 1 && rest[0] == 0xC5 && rest[1] == 0xBF { // U+017F folds to s
		return 3
	}
	return 0
}
