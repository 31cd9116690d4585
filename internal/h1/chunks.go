package h1

import (
	"errors"
	"fmt"
)

// ErrFraming says that an answer's chunks are not as HTTP has them.
var ErrFraming = errors.New("h1: the answer's chunk framing is broken")

var errChunkLine = fmt.Errorf("%w: a line is too long", ErrFraming)

// maxLine bounds a chunk's size line with its extensions, and all trailers.
const maxLine = 4 << 10

// The places inside a chunked body where a read may end.
const (
	inSize   = iota // the digits
	inPad           // in spaces after them
	inExt           // in an extension
	inSizeLF        // the LF after the size line's CR
	inData
	inDataCR
	inDataLF
	inTrailer     // at the start of a trailer line
	inTrailerLine // inside of one
	inTrailerLF
	inEndLF
	atEnd
)

// chunks takes the chunk framing of HTTP/1.1 (RFC 9112, section 7.1) out of a
// body that comes in pieces of any size. The zero value is at the start.
type chunks struct {
	state  uint8
	digits uint8
	line   uint16 // bytes of the current line, or of all trailers
	left   int64  // data bytes left in the chunk
}

func (c *chunks) ended() bool { return c.state == atEnd }

// decode moves the data in p to its front. It returns how much that is, and
// how much of p was used: all of it unless the body ended before.
func (c *chunks) decode(p []byte) (n, used int, err error) {
	for used < len(p) && c.state != atEnd {
		if c.state == inData {
			take := int(min(c.left, int64(len(p)-used)))
			if n != used {
				copy(p[n:], p[used:used+take])
			}
			n, used = n+take, used+take
			if c.left -= int64(take); c.left == 0 {
				c.state = inDataCR
			}
			continue
		}
		if err := c.frame(p[used]); err != nil {
			return n, used, err
		}
		used++
	}
	return n, used, nil
}

// frame takes one byte that is not data.
func (c *chunks) frame(b byte) error {
	switch c.state {
	case inSize:
		return c.size(b)
	case inPad:
		return c.pad(b)
	case inExt:
		return c.until(b, inSizeLF)
	case inSizeLF:
		if b != '\n' {
			return ErrFraming
		}
		c.state, c.line, c.digits = inData, 0, 0
		if c.left == 0 {
			c.state = inTrailer
		}
	case inDataCR:
		return c.expect(b, '\r', inDataLF)
	case inDataLF:
		return c.expect(b, '\n', inSize)
	case inTrailer:
		if b == '\r' {
			c.state = inEndLF
			return nil
		}
		c.state = inTrailerLine
		return c.until(b, inTrailerLF)
	case inTrailerLine:
		return c.until(b, inTrailerLF)
	case inTrailerLF:
		return c.expect(b, '\n', inTrailer)
	case inEndLF:
		return c.expect(b, '\n', atEnd)
	}
	return nil
}

// size takes a byte of a chunk's size.
func (c *chunks) size(b byte) error {
	v := hexDigit(b)
	if v < 0 {
		if c.digits == 0 {
			return ErrFraming
		}
		return c.pad(b)
	}
	if c.digits++; c.digits > 15 {
		return ErrFraming
	}
	c.left = c.left<<4 | v
	return nil
}

// pad takes a byte between a size and what follows it on its line.
func (c *chunks) pad(b byte) error {
	switch b {
	case ' ', '\t':
		c.state = inPad
	case ';':
		if c.state == inPad { // RFC 9112 would have it, net/http not: nobody sends it
			return ErrFraming
		}
		c.state = inExt
	case '\r':
	default:
		return ErrFraming
	}
	return c.until(b, inSizeLF)
}

func hexDigit(b byte) int64 {
	switch {
	case b >= '0' && b <= '9':
		return int64(b - '0')
	case b >= 'a' && b <= 'f':
		return int64(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int64(b-'A') + 10
	}
	return -1
}

// until passes over a line up to its CR.
func (c *chunks) until(b byte, next uint8) error {
	if c.line++; c.line > maxLine {
		return errChunkLine
	}
	switch b {
	case '\r':
		c.state = next
	case '\n':
		return ErrFraming
	}
	return nil
}

func (c *chunks) expect(got, want byte, next uint8) error {
	if got != want {
		return ErrFraming
	}
	c.state = next
	return nil
}
