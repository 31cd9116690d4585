// Package jsonscan reads large JSON documents without building values. It is
// strict: invalid UTF-8, unpaired surrogates and raw control characters in
// strings are errors, as they are to the reference's reader.
package jsonscan

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// Cursor is a position in a JSON document.
type Cursor struct {
	data  []byte
	pos   int
	depth int
}

// maxDepth bounds the nesting of objects and arrays.
const maxDepth = 64

// New returns a cursor at the start of data, which must not change while the
// cursor and what it returned are in use.
func New(data []byte) *Cursor { return &Cursor{data: data} }

// SyntaxError reports what is wrong with a document and where.
type SyntaxError struct {
	Offset int
	What   string
}

// Error describes the error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("json: %s at byte %d", e.What, e.Offset)
}

func (c *Cursor) fail(what string) error { return &SyntaxError{c.pos, what} }

func (c *Cursor) space() {
	for c.pos < len(c.data) {
		switch c.data[c.pos] {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return
		}
	}
}

// Peek returns the first byte of the next token, or 0 at the end.
func (c *Cursor) Peek() byte {
	c.space()
	if c.pos >= len(c.data) {
		return 0
	}
	return c.data[c.pos]
}

// End fails unless nothing but white space is left.
func (c *Cursor) End() error {
	if c.Peek() != 0 || c.pos < len(c.data) {
		return c.fail("text after the value")
	}
	return nil
}

func (c *Cursor) expect(b byte) error {
	if c.Peek() != b {
		return c.fail(fmt.Sprintf("expected %q", b))
	}
	c.pos++
	return nil
}

// Object calls member for each member of the object at the cursor, which must
// read the member's value. The key is valid during the call.
func (c *Cursor) Object(member func(key []byte) error) error {
	if err := c.open('{'); err != nil {
		return err
	}
	var scratch [64]byte
	for first := true; ; first = false {
		if c.Peek() == '}' && first {
			break
		}
		key, err := c.String(scratch[:0])
		if err == nil {
			err = c.expect(':')
		}
		if err == nil {
			err = member(key)
		}
		if err != nil {
			return err
		}
		if c.Peek() != ',' {
			break
		}
		c.pos++
	}
	c.depth--
	return c.expect('}')
}

// Array calls element for each element of the array at the cursor, which must
// read it.
func (c *Cursor) Array(element func() error) error {
	if err := c.open('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		if c.Peek() == ']' && first {
			break
		}
		if err := element(); err != nil {
			return err
		}
		if c.Peek() != ',' {
			break
		}
		c.pos++
	}
	c.depth--
	return c.expect(']')
}

func (c *Cursor) open(b byte) error {
	if err := c.expect(b); err != nil {
		return err
	}
	if c.depth++; c.depth > maxDepth {
		return c.fail("nesting too deep")
	}
	return nil
}

// Uint32 reads a number that is a whole number of at most 32 bits.
func (c *Cursor) Uint32() (uint32, error) {
	c.space()
	start, n := c.pos, uint64(0)
	for c.pos < len(c.data) && c.data[c.pos] >= '0' && c.data[c.pos] <= '9' && n < 1<<32 {
		n = n*10 + uint64(c.data[c.pos]-'0')
		c.pos++
	}
	if c.pos == start || n >= 1<<32 || (c.data[start] == '0' && c.pos > start+1) {
		c.pos = start
		return 0, c.fail("expected a whole number below 2^32")
	}
	return uint32(n), nil
}

// String reads a string. Where the string has no escapes the result is part of
// the document, otherwise it is appended to scratch, which should be empty.
func (c *Cursor) String(scratch []byte) ([]byte, error) {
	if err := c.expect('"'); err != nil {
		return nil, err
	}
	start, ascii := c.pos, byte(0)
	for i := start; i < len(c.data); i++ {
		b := c.data[i]
		switch {
		case b == '"':
			s := c.data[start:i]
			if ascii >= utf8.RuneSelf && !utf8.Valid(s) {
				return nil, c.fail("invalid UTF-8")
			}
			c.pos = i + 1
			return s, nil
		case b == '\\':
			c.pos = i
			return c.escaped(append(scratch, c.data[start:i]...))
		case b < ' ':
			c.pos = i
			return nil, c.fail("control character in a string")
		}
		ascii |= b
	}
	return nil, c.fail("string without end")
}

// escaped reads on in a string from its first escape.
func (c *Cursor) escaped(s []byte) ([]byte, error) {
	for c.pos < len(c.data) {
		b := c.data[c.pos]
		switch {
		case b == '"':
			if !utf8.Valid(s) {
				return nil, c.fail("invalid UTF-8")
			}
			c.pos++
			return s, nil
		case b == '\\':
			r, err := c.escape()
			if err != nil {
				return nil, err
			}
			s = utf8.AppendRune(s, r)
		case b < ' ':
			return nil, c.fail("control character in a string")
		default:
			s = append(s, b)
			c.pos++
		}
	}
	return nil, c.fail("string without end")
}

func (c *Cursor) escape() (rune, error) {
	if c.pos+1 >= len(c.data) {
		return 0, c.fail("string without end")
	}
	b := c.data[c.pos+1]
	if b == 'u' {
		return c.escapedUnit()
	}
	c.pos += 2
	switch b {
	case '"', '\\', '/':
		return rune(b), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	}
	c.pos -= 2
	return 0, c.fail("unknown escape")
}

// escapedUnit reads \uXXXX, or two of them that form a surrogate pair.
func (c *Cursor) escapedUnit() (rune, error) {
	r, ok := c.hex4(c.pos)
	if !ok {
		return 0, c.fail("bad unicode escape")
	}
	if !utf16.IsSurrogate(r) {
		c.pos += 6
		return r, nil
	}
	low, ok := c.hex4(c.pos + 6)
	pair := utf16.DecodeRune(r, low)
	if !ok || pair == utf8.RuneError {
		return 0, c.fail("unpaired surrogate")
	}
	c.pos += 12
	return pair, nil
}

// hex4 decodes \uXXXX at i.
func (c *Cursor) hex4(i int) (rune, bool) {
	if i+6 > len(c.data) || c.data[i] != '\\' || c.data[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, b := range c.data[i+2 : i+6] {
		switch {
		case b >= '0' && b <= '9':
			r = r<<4 | rune(b-'0')
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			r = r<<4 | rune(b|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
