package openai

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// maxDigits is the longest integer literal Python converts; it refuses the
// document beyond that.
const maxDigits = 4300

// linearKeys is the size up to which an object's names are compared one by
// one; larger objects get a set.
const linearKeys = 16

// span is a half-open range of offsets into the body.
type span struct{ start, end int }

// A scanner reads JSON strictly. Its methods leave the position after what
// they read. The first error ends the scan.
type scanner struct {
	b     []byte
	i     int
	depth int
	lim   Limits
	names [][]byte // of all open objects, innermost last
	text  []byte   // backing of names that had escapes
}

// object is the state of one open object.
type object struct {
	base, n int
	seen    map[string]struct{} // only for many names
}

func (s *scanner) syntax(expected string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Code: CodeInvalidJSON,
		Message: "the body is not a valid JSON object: expected " + expected + " at byte " + strconv.Itoa(s.i),
	}
}

func (s *scanner) tooMany(what string, limit int) *Error {
	return &Error{
		Status: http.StatusBadRequest, Code: CodeTooMany,
		Message: "the body has too many " + what + ": the limit is " + strconv.Itoa(limit),
	}
}

// peek skips white space and returns the next byte, or 0 at the end. A NUL
// byte in the body is no JSON either, so the two need no telling apart.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c > ' ' {
			return c
		}
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return 0
		}
		s.i++
	}
	return 0
}

func (s *scanner) enter() *Error {
	s.i++
	s.depth++
	if s.depth > s.lim.Depth {
		return s.tooMany("levels of nesting", s.lim.Depth)
	}
	return nil
}

// open enters an object; the caller has seen its brace.
func (s *scanner) open() (object, *Error) {
	return object{base: len(s.names)}, s.enter()
}

// next reads the separator, the next name and its colon, and stands before
// the value. It returns false after the closing brace. start is the offset of
// the name's opening quote. The name is valid as long as the body is.
func (s *scanner) next(o *object) (name []byte, start int, ok bool, err *Error) {
	c := s.peek()
	if c == '}' {
		s.i++
		s.depth--
		s.names = s.names[:o.base]
		return nil, 0, false, nil
	}
	if o.n > 0 {
		if c != ',' {
			return nil, 0, false, s.syntax("',' or '}'")
		}
		s.i++
		c = s.peek()
	}
	if c != '"' {
		return nil, 0, false, s.syntax("a name in double quotes")
	}
	start = s.i
	raw, escaped, err := s.str()
	if err != nil {
		return nil, 0, false, err
	}
	name = s.b[raw.start:raw.end]
	if escaped {
		at := len(s.text)
		s.text = appendUnescaped(s.text, name)
		name = s.text[at:len(s.text):len(s.text)]
	}
	if err := s.unique(o, name); err != nil {
		return nil, 0, false, err
	}
	if s.peek() != ':' {
		return nil, 0, false, s.syntax("':' after a name")
	}
	s.i++
	s.peek()
	return name, start, true, nil
}

// unique refuses a name the object already has, and one name too many.
func (s *scanner) unique(o *object, name []byte) *Error {
	if o.n++; o.n > s.lim.Keys {
		return s.tooMany("names in one object", s.lim.Keys)
	}
	dup := false
	if o.n <= linearKeys {
		for _, k := range s.names[o.base:] {
			dup = dup || bytes.Equal(k, name)
		}
		s.names = append(s.names, name)
	} else {
		if o.seen == nil {
			o.seen = make(map[string]struct{}, 4*linearKeys)
			for _, k := range s.names[o.base:] {
				o.seen[string(k)] = struct{}{}
			}
		}
		_, dup = o.seen[string(name)]
		o.seen[string(name)] = struct{}{}
	}
	if !dup {
		return nil
	}
	e := &Error{
		Status: http.StatusBadRequest, Code: CodeDuplicateKey, Param: known[string(name)],
		Message: "the body gives a field twice in one object: expected each name once, at byte " + strconv.Itoa(s.i),
	}
	if e.Param != "" {
		e.Message = "the body gives " + e.Param + " twice in one object: expected each name once, at byte " + strconv.Itoa(s.i)
	}
	return e
}

// elem stands before the next element of an array whose bracket was entered,
// or returns false after the closing one. n counts the elements seen.
func (s *scanner) elem(n *int) (bool, *Error) {
	c := s.peek()
	if c == ']' {
		s.i++
		s.depth--
		return false, nil
	}
	if *n > 0 {
		if c != ',' {
			return false, s.syntax("',' or ']'")
		}
		s.i++
		s.peek()
	}
	*n++
	return true, nil
}

// skip reads any value.
func (s *scanner) skip() *Error {
	switch c := s.peek(); c {
	case '"':
		_, _, err := s.str()
		return err
	case '{':
		o, err := s.open()
		for err == nil {
			var ok bool
			if _, _, ok, err = s.next(&o); err != nil || !ok {
				return err
			}
			err = s.skip()
		}
		return err
	case '[':
		n := 0
		err := s.enter()
		for err == nil {
			var ok bool
			if ok, err = s.elem(&n); err != nil || !ok {
				return err
			}
			err = s.skip()
		}
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			_, _, err := s.number()
			return err
		}
		return s.syntax("a value")
	}
}

func (s *scanner) literal(word string) *Error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return s.syntax("true, false or null")
	}
	s.i += len(word)
	return nil
}

// number reads a number literal and reports whether it is written as an integer.
func (s *scanner) number() (lit span, integer bool, err *Error) {
	lit.start = s.i
	if s.b[s.i] == '-' {
		s.i++
	}
	first := s.i
	n := s.digits()
	if n == 0 || n > 1 && s.b[first] == '0' {
		return lit, false, s.syntax("a number")
	}
	integer = true
	if s.i < len(s.b) && s.b[s.i] == '.' {
		integer = false
		s.i++
		if s.digits() == 0 {
			return lit, false, s.syntax("a digit")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		integer = false
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if s.digits() == 0 {
			return lit, false, s.syntax("a digit")
		}
	}
	if integer && n > maxDigits {
		return lit, false, s.tooMany("digits in one number", maxDigits)
	}
	lit.end = s.i
	return lit, integer, nil
}

func (s *scanner) digits() int {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i - start
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str reads a string; the position is at its opening quote. raw excludes the
// quotes. The text is checked: no control characters, valid UTF-8, known
// escapes, surrogates only in pairs.
func (s *scanner) str() (raw span, escaped bool, err *Error) {
	s.i++
	raw.start = s.i
	var wide uint64
	b, i := s.b, s.i
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			wide |= x & highs
			quote := x ^ ones*'"'
			slash := x ^ ones*'\\'
			stop := ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*0x20)&^x) & highs
			if stop != 0 {
				i += bits.TrailingZeros64(stop) / 8
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
			wide |= uint64(b[i]) & 0x80
			i++
		}
		s.i = i
		if i >= len(b) {
			return raw, false, s.syntax("the end of a string")
		}
		switch b[i] {
		case '"':
			raw.end = i
			s.i++
			if wide != 0 && !utf8.Valid(b[raw.start:raw.end]) {
				s.i = raw.start
				return raw, false, s.syntax("valid UTF-8 in the string")
			}
			return raw, escaped, nil
		case '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return raw, false, err
			}
			i = s.i
		default:
			return raw, false, s.syntax("no control character in a string")
		}
	}
}

// escape reads one escape sequence, or two that make a surrogate pair.
func (s *scanner) escape() *Error {
	if s.i+1 >= len(s.b) {
		return s.syntax("the end of a string")
	}
	switch s.b[s.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return nil
	case 'u':
		u, ok := hex4(s.b[s.i+2:])
		if !ok {
			return s.syntax("four hexadecimal digits after \\u")
		}
		if u < 0xd800 || u > 0xdfff {
			s.i += 6
			return nil
		}
		rest := s.b[s.i+6:]
		if u < 0xdc00 && len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
			if low, ok := hex4(rest[2:]); ok && low >= 0xdc00 && low <= 0xdfff {
				s.i += 12
				return nil
			}
		}
		return s.syntax("no lone surrogate")
	default:
		return s.syntax("a known escape sequence")
	}
}
