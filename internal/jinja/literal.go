package jinja

import (
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// number reads an integer or float literal.
func (l *lexer) number() error {
	s := l.src[l.pos:]
	afterDot := l.pos > 0 && l.src[l.pos-1] == '.'
	if n := floatLen(s); n > 0 && !afterDot {
		f, err := strconv.ParseFloat(strings.ReplaceAll(s[:n], "_", ""), 64)
		if err != nil && f == 0 {
			return l.errorf("invalid float literal")
		}
		l.emit(token{kind: tokFloat, val: FromFloat(f), text: s[:n]})
		l.advance(l.pos + n)
		return nil
	}
	n := intLen(s)
	digits := strings.ReplaceAll(s[:n], "_", "")
	if len(digits) > maxIntDigits {
		return l.errorf("integer literal longer than %d digits", maxIntDigits)
	}
	b, ok := new(big.Int).SetString(digits, 0)
	if !ok {
		return l.errorf("invalid integer literal")
	}
	l.emit(token{kind: tokInt, val: FromBig(b), text: s[:n]})
	l.advance(l.pos + n)
	return nil
}

func digitRun(s string, i int) int {
	for i < len(s) && (isDigit(s[i]) || s[i] == '_' && i+1 < len(s) && isDigit(s[i+1]) && i > 0 && isDigit(s[i-1])) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// floatLen returns the length of the float literal at the start of s, or 0.
func floatLen(s string) int {
	i := digitRun(s, 0)
	frac := 0
	if i+1 < len(s) && s[i] == '.' && isDigit(s[i+1]) {
		frac = digitRun(s, i+1)
	}
	j := max(i, frac)
	if j < len(s) && s[j]|0x20 == 'e' {
		k := j + 1
		if k < len(s) && (s[k] == '+' || s[k] == '-') {
			k++
		}
		if k < len(s) && isDigit(s[k]) {
			return digitRun(s, k)
		}
	}
	return frac
}

// intLen returns the length of the integer literal at the start of s.
func intLen(s string) int {
	if s[0] == '0' {
		if n := prefixedIntLen(s); n > 0 {
			return n
		}
		i := 1
		for i < len(s) && (s[i] == '0' || s[i] == '_' && i+1 < len(s) && s[i+1] == '0') {
			i++
		}
		return i
	}
	return digitRun(s, 0)
}

func prefixedIntLen(s string) int {
	if len(s) < 3 {
		return 0
	}
	var ok func(c byte) bool
	switch s[1] | 0x20 {
	case 'b':
		ok = func(c byte) bool { return c == '0' || c == '1' }
	case 'o':
		ok = func(c byte) bool { return c >= '0' && c <= '7' }
	case 'x':
		ok = func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
	default:
		return 0
	}
	i := 2
	for i < len(s) {
		switch {
		case ok(s[i]):
			i++
		case s[i] == '_' && i+1 < len(s) && ok(s[i+1]):
			i += 2
		default:
			if i == 2 {
				return 0
			}
			return i
		}
	}
	if i == 2 {
		return 0
	}
	return i
}

// str reads a string literal with Python's escapes.
func (l *lexer) str(quote byte) error {
	i := l.pos + 1
	for i < len(l.src) && l.src[i] != quote {
		if l.src[i] == '\\' {
			i++
		}
		i++
	}
	if i >= len(l.src) {
		return l.errorf("unexpected char %s", reprString(string(quote)))
	}
	s, err := unescape(l.src[l.pos+1 : i])
	if err != nil {
		return l.errorf("%s", err.Message)
	}
	l.emit(token{kind: tokString, val: FromString(s), text: s})
	l.advance(i + 1)
	return nil
}

// unescape decodes the escapes of a string literal; an unknown escape stays
// as it is.
func unescape(s string) (string, *Error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		r, n, err := escape(s[i+1:])
		switch {
		case err != nil:
			return "", err
		case n == 0: // unknown
			b.WriteByte('\\')
			i++
		default:
			if r >= 0 {
				b.WriteRune(r)
			}
			i += 1 + n
		}
	}
	return b.String(), nil
}

const simpleEscapes = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v"

// escape decodes the escape whose text after the backslash starts s. It
// returns the character, or -1 for none, and the bytes used; 0 if unknown.
func escape(s string) (rune, int, *Error) {
	c := s[0]
	for i := 0; i < len(simpleEscapes); i += 2 {
		if simpleEscapes[i] == c {
			return rune(simpleEscapes[i+1]), 1, nil
		}
	}
	switch {
	case c == '\n':
		return -1, 1, nil
	case c >= '0' && c <= '7':
		n := 1
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		v, err := strconv.ParseUint(s[:n], 8, 32)
		if err != nil {
			return 0, 0, valueErr("invalid octal escape")
		}
		return rune(v), n, nil
	case c == 'x':
		return hexEscape(s, 2)
	case c == 'u':
		return hexEscape(s, 4)
	case c == 'U':
		return hexEscape(s, 8)
	case c == 'N':
		return 0, 0, valueErr("escapes by character name are not supported")
	}
	return 0, 0, nil
}

func hexEscape(s string, n int) (rune, int, *Error) {
	if len(s) < 1+n {
		return 0, 0, valueErr("truncated \\%cXX escape", s[0])
	}
	v, err := strconv.ParseUint(s[1:1+n], 16, 32)
	if err != nil {
		return 0, 0, valueErr("truncated \\%cXX escape", s[0])
	}
	if v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
		return 0, 0, valueErr("illegal Unicode character in escape")
	}
	return rune(v), 1 + n, nil
}
