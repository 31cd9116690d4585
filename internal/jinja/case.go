package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// toUpper is str.upper.
func toUpper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	var b strings.Builder
	for _, r := range s {
		writeUpper(&b, r)
	}
	return b.String()
}

func writeUpper(b *strings.Builder, r rune) {
	if r < utf8.RuneSelf {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		b.WriteByte(byte(r))
		return
	}
	if u, ok := specialUpper[r]; ok {
		b.WriteString(u)
		return
	}
	b.WriteRune(unicode.ToUpper(r))
}

func writeTitle(b *strings.Builder, r rune) {
	if u, ok := specialTitle[r]; ok {
		b.WriteString(u)
		return
	}
	b.WriteRune(unicode.ToTitle(r))
}

// writeLower writes the lower case of the character r at position i of s.
func writeLower(b *strings.Builder, s string, i int, r rune) {
	switch {
	case r < utf8.RuneSelf:
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		b.WriteByte(byte(r))
	case r == 'İ':
		b.WriteString("i\u0307")
	case r == 'Σ' && finalSigma(s, i):
		b.WriteRune('ς')
	default:
		b.WriteRune(unicode.ToLower(r))
	}
}

// toLower is str.lower.
func toLower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for i, r := range s {
		writeLower(&b, s, i, r)
	}
	return b.String()
}

// finalSigma reports whether the sigma at i ends a word.
func finalSigma(s string, i int) bool {
	before, after := s[:i], s[i+len("Σ"):]
	for before != "" {
		r, n := utf8.DecodeLastRuneInString(before)
		if !caseIgnorable(r) {
			if !isCasedRune(r) {
				return false
			}
			break
		}
		before = before[:len(before)-n]
	}
	if before == "" {
		return false
	}
	for _, r := range after {
		if !caseIgnorable(r) {
			return !isCasedRune(r)
		}
	}
	return true
}

func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:·’‘․", r)
}

func isCasedRune(r rune) bool {
	return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
}

// capitalize is str.capitalize.
func capitalize(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i == 0 {
			writeTitle(&b, r)
		} else {
			writeLower(&b, s, i, r)
		}
	}
	return b.String()
}

// title is str.title: a letter after a non-letter is title case.
func title(s string) string {
	var b strings.Builder
	inWord := false
	for i, r := range s {
		if inWord {
			writeLower(&b, s, i, r)
		} else {
			writeTitle(&b, r)
		}
		inWord = isCasedRune(r)
	}
	return b.String()
}

// swapCase is str.swapcase.
func swapCase(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case unicode.IsUpper(r):
			writeLower(&b, s, i, r)
		case unicode.IsLower(r):
			writeUpper(&b, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isCased is str.isupper or str.islower: at least one cased character, and
// none of the other case.
func isCased(s string, upper bool) bool {
	found := false
	for _, r := range s {
		switch {
		case unicode.IsUpper(r):
			if !upper {
				return false
			}
			found = true
		case unicode.IsTitle(r):
			return false
		case unicode.IsLower(r):
			if upper {
				return false
			}
			found = true
		}
	}
	return found
}

// isTitled is str.istitle.
func isTitled(s string) bool {
	found, inWord := false, false
	for _, r := range s {
		switch {
		case unicode.IsUpper(r) || unicode.IsTitle(r):
			if inWord {
				return false
			}
			found, inWord = true, true
		case unicode.IsLower(r):
			if !inWord {
				return false
			}
		default:
			inWord = false
		}
	}
	return found
}

// allRunes reports whether s is not empty and every character passes.
func allRunes(s string, ok func(rune) bool) bool {
	for _, r := range s {
		if !ok(r) {
			return false
		}
	}
	return s != ""
}
