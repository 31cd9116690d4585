package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// toUpper is str.upper. The one common character whose upper case is longer
// is handled; other special casings are not.
func toUpper(s string) string {
	if strings.Contains(s, "ß") {
		s = strings.ReplaceAll(s, "ß", "SS")
	}
	return strings.ToUpper(s)
}

// toLower is str.lower, with the final form of sigma.
func toLower(s string) string {
	if !strings.ContainsAny(s, "Σİ") {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == 'İ':
			b.WriteString("i̇")
		case r == 'Σ' && finalSigma(s, i):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
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
	if s == "" {
		return s
	}
	r, n := utf8.DecodeRuneInString(s)
	first := string(unicode.ToTitle(r))
	if r == 'ß' {
		first = "Ss"
	}
	return first + toLower(s)[len(toLower(s[:n])):]
}

// title is str.title: a letter after a non-letter is title case.
func title(s string) string {
	var b strings.Builder
	inWord := false
	for _, r := range s {
		if inWord {
			b.WriteRune(unicode.ToLower(r))
		} else {
			b.WriteRune(unicode.ToTitle(r))
		}
		inWord = isCasedRune(r)
	}
	return b.String()
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsUpper(r):
			return unicode.ToLower(r)
		case unicode.IsLower(r):
			return unicode.ToUpper(r)
		}
		return r
	}, s)
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
