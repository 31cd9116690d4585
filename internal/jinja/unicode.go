package jinja

import "unicode"

// isSpace is Python's str.isspace for one character: Unicode white space and
// the four information separators.
func isSpace(r rune) bool {
	switch {
	case r < 0x80:
		return r == ' ' || r >= 0x09 && r <= 0x0d || r >= 0x1c && r <= 0x1f
	case r == 0x85 || r == 0xa0:
		return true
	case r < 0x1680:
		return false
	}
	return unicode.IsSpace(r)
}

// isWord reports whether r may be part of a name.
func isWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.In(r, unicode.Nl, unicode.Mn, unicode.Mc, unicode.Pc)
}
