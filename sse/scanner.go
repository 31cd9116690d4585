package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/expediterhq/expediter/internal/rawio"
)

const (
	defaultMaxEvent = 16 << 20

	smallBuffer = 1 << 10  // what an open stream holds
	largeBuffer = 16 << 10 // what it grows to for events that fit
	partSize    = 8 << 10  // pieces in which larger events are gathered
	bigPart     = 32 << 10 // the same from hugeEvent on
	hugeEvent   = 1 << 20
	calmEvents  = 64  // events in a row that would fit a small buffer before a large one is given up
	maxEmpty    = 100 // reads without a byte or an error before giving up
)

// ErrTruncated is returned by Scanner.Next when the stream ended, with or
// without an error of its own, inside an event. The half event is never
// returned.
var ErrTruncated = errors.New("sse: stream ended inside an event")

// ErrNotYet is returned by a reader that does not wait, and by a Scanner that
// reads from it.
var ErrNotYet = rawio.ErrNotYet

// TooLargeError is returned by Scanner.Next for an event above
// ScannerConfig.MaxEvent.
type TooLargeError struct {
	Limit int // bytes
}

// Error names the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("sse: event is larger than the limit of %d bytes", e.Limit)
}

// ScannerConfig configures a Scanner.
type ScannerConfig struct {
	// MaxEvent is the size in bytes, as received, above which an event is
	// refused with a *TooLargeError. If zero, 16 MiB.
	MaxEvent int
}

// A Scanner reads events from a stream. It reads no more than it was given
// room for and never waits for bytes beyond the end of an event. It holds
// 1 KiB, up to 16 KiB while events need it; for a larger event at most twice the
// event, for as long as the event is valid.
//
// A Scanner is for one goroutine at a time.
type Scanner struct {
	r   io.Reader
	max int

	buf        []byte // buf[start:fill] is not yet returned
	start      int    // of the current event; 0 while parts hold its beginning
	pos        int    // lines before it have been looked at
	line       int    // start of the current line; negative if it began in a part
	fill       int
	lines      int  // non-empty lines of the current event seen so far
	firstEnd   int  // end of the first of them, without its line end
	endedCR    bool // the line before pos ended in a CR that was the last byte: an LF belongs to it
	prevCRLF   bool // the line before ended in CRLF
	swallow    bool // the event before ended in a CR: an LF belongs to it and is dropped
	bom        bool // the start of the stream has been looked at
	found      int  // end of the complete event in buf, 0 if none is known
	synthetic  bool // its LF is ours
	parts      [][]byte
	partsBytes int

	joined   []byte // data of an event with several data lines
	lastType string
	calm     int
	err      error
}

// NewScanner returns a Scanner that reads from r.
func NewScanner(r io.Reader, cfg ScannerConfig) *Scanner {
	s := &Scanner{max: cfg.MaxEvent}
	if s.max <= 0 {
		s.max = defaultMaxEvent
	}
	s.Reset(r)
	return s
}

// Reset makes the Scanner read a new stream from r, keeping its buffer and
// its configuration. Reset(nil) lets go of the reader before pooling.
func (s *Scanner) Reset(r io.Reader) {
	buf := s.buf
	if len(buf) > largeBuffer {
		buf = nil
	}
	joined := s.joined
	if cap(joined) > largeBuffer {
		joined = nil
	}
	*s = Scanner{r: r, max: s.max, buf: buf, joined: joined, lastType: s.lastType}
}

// Next returns the next event as soon as its last byte has been read. It
// returns io.EOF when the stream ended between two events, ErrTruncated when
// it ended inside one, a *TooLargeError, or the reader's error wrapped. An
// error is returned again by every later call.
//
// A reader that must not wait returns ErrNotYet where nothing has come. So does
// Next then, and goes on where it was when it is called again.
func (s *Scanner) Next() (Event, error) {
	if cap(s.joined) > largeBuffer {
		s.joined = nil
	}
	for empty := 0; !s.find(); {
		if s.err != nil {
			return Event{}, s.end()
		}
		if s.pending() > s.max {
			s.err = &TooLargeError{Limit: s.max}
			continue
		}
		n := s.read()
		if s.err == ErrNotYet {
			s.err = nil
			if n == 0 {
				return Event{}, ErrNotYet
			}
		}
		if n > 0 {
			empty = 0
		} else if empty++; empty == maxEmpty && s.err == nil {
			s.err = io.ErrNoProgress
		}
	}
	return s.take()
}

// Buffered reports whether Next will return an event without reading: the
// caller that has written the event before need not flush yet.
func (s *Scanner) Buffered() bool { return s.find() }

// pending counts the bytes of the current event read so far.
func (s *Scanner) pending() int { return s.partsBytes + s.fill - s.start }

// read makes room and reads once.
func (s *Scanner) read() int {
	switch {
	case s.start == s.fill:
		s.rewind()
	case s.fill < len(s.buf)-1:
	case s.start > 0:
		s.compact()
	default:
		s.grow()
	}
	// The last byte stays free for the LF that take may add.
	room := s.buf[s.fill : len(s.buf)-1]
	n, err := s.r.Read(room)
	if n < 0 || n > len(room) {
		n, err = 0, errors.New("sse: reader returned an impossible count")
	}
	s.fill += n
	s.err = err
	return n
}

// rewind starts over in an empty buffer, a small one if that would have done
// for a while.
func (s *Scanner) rewind() {
	s.pos, s.line, s.start, s.fill = s.pos-s.start, s.line-s.start, 0, 0
	calm := s.calm >= calmEvents && len(s.parts) == 0
	if s.buf == nil || len(s.buf) > smallBuffer && calm {
		s.buf = make([]byte, smallBuffer)
	}
}

// compact moves what is left of the buffer to its front.
func (s *Scanner) compact() {
	s.fill = copy(s.buf, s.buf[s.start:s.fill])
	s.pos, s.line, s.firstEnd, s.start = s.pos-s.start, s.line-s.start, s.firstEnd-s.start, 0
}

// grow makes room when one unfinished event fills the whole buffer: a larger
// buffer up to largeBuffer; from there on the full one becomes a part, so
// that nothing is copied until the size is known.
func (s *Scanner) grow() {
	if len(s.parts) == 0 && len(s.buf) < largeBuffer {
		buf := make([]byte, 2*len(s.buf))
		copy(buf, s.buf[:s.fill])
		s.buf = buf
		return
	}
	s.parts = append(s.parts, s.buf[:s.fill])
	s.partsBytes += s.fill
	s.pos, s.line, s.firstEnd = s.pos-s.fill, s.line-s.fill, s.firstEnd-s.fill
	s.fill = 0
	size := partSize
	if s.partsBytes >= hugeEvent {
		size = bigPart
	}
	s.buf = make([]byte, size)
}

// find looks for the end of the current event in what has been read.
func (s *Scanner) find() bool {
	if s.found > 0 {
		return true
	}
	if s.pos == s.fill || s.start == s.fill {
		return false
	}
	if !s.bom && !s.skipBOM() {
		return false
	}
	if s.swallow {
		s.swallow = false
		if s.buf[s.start] == '\n' {
			s.start++
			s.pos, s.line = s.start, s.start
		}
	}
	if s.endedCR && s.pos < s.fill {
		s.endedCR = false
		if s.buf[s.pos] == '\n' {
			s.pos++
			s.line = s.pos
			s.prevCRLF = true
		}
	}
	if s.pos == s.start && s.partsBytes == 0 && s.findPlain() {
		return true
	}
	for s.pos < s.fill {
		i := lineEnd(s.buf[s.pos:s.fill])
		if i < 0 {
			s.pos = s.fill
			return false
		}
		if s.endLine(s.pos + i) {
			return true
		}
	}
	return false
}

// findPlain finds the event that nearly all are, at the cost of two searches:
// one line, ended by two LFs, complete and not too long.
func (s *Scanner) findPlain() bool {
	b := s.buf[s.start:min(s.fill, s.start+window)]
	lf := bytes.IndexByte(b, '\n')
	if lf <= 0 || lf+1 >= len(b) || b[lf+1] != '\n' || bytes.IndexByte(b[:lf], '\r') >= 0 {
		return false
	}
	s.lines, s.firstEnd, s.found, s.prevCRLF = 1, s.start+lf, s.start+lf+2, false
	return true
}

// endLine takes note of a line that ends at i and reports whether it ends
// the event.
func (s *Scanner) endLine(i int) bool {
	next, crlf := i+1, false
	if s.buf[i] == '\r' && next < s.fill && s.buf[next] == '\n' {
		next++
		crlf = true
	}
	lastCR := s.buf[i] == '\r' && next == s.fill && !crlf
	if s.line == i {
		s.found = next
		s.swallow = lastCR
		s.synthetic = lastCR && s.prevCRLF
		s.prevCRLF = crlf || s.synthetic
		return true
	}
	if s.lines == 0 {
		s.firstEnd = i
	}
	s.lines++
	s.pos, s.line, s.prevCRLF, s.endedCR = next, next, crlf, lastCR
	return false
}

const bom = "\xef\xbb\xbf"

// skipBOM drops a byte order mark at the start of the stream and reports
// whether enough has been read to know.
func (s *Scanner) skipBOM() bool {
	head := s.buf[s.start:s.fill]
	if len(head) < len(bom) && string(head) == bom[:len(head)] {
		return false
	}
	s.bom = true
	if bytes.HasPrefix(head, []byte(bom)) {
		s.start += len(bom)
		s.pos, s.line = s.start, s.start
	}
	return s.start < s.fill
}

// unmarked drops lines at the start of an event that begin with a byte order
// mark. They are fields that nobody knows; but where the event becomes the
// first of another stream, the mark would be taken away and the rest be known.
func unmarked(raw []byte) []byte {
	for bytes.HasPrefix(raw, []byte(bom)) {
		_, raw = cutLine(raw)
	}
	return raw
}

// take returns the event that find has found.
func (s *Scanner) take() (Event, error) {
	end, start := s.found, s.start
	size := s.partsBytes + end - start
	if size > s.max {
		s.err = &TooLargeError{Limit: s.max}
		return Event{}, s.err
	}
	raw := s.buf[start:end]
	if s.synthetic {
		// Nobody can tell, and a reader that looks for CRLF CRLF is served too.
		s.buf[end] = '\n'
		raw = s.buf[start : end+1]
	}
	if size >= smallBuffer { // of which one byte stays free
		s.calm = 0
	} else {
		s.calm++
	}
	firstEnd := s.firstEnd - start
	if s.partsBytes > 0 {
		firstEnd += s.partsBytes
		raw = s.join(raw)
	}
	simple := s.lines == 1 && bytes.HasPrefix(raw, []byte("data:"))
	s.start, s.pos, s.line, s.found = end, end, end, 0
	s.lines, s.endedCR, s.synthetic = 0, false, false
	if !simple {
		return s.parse(unmarked(raw)), nil
	}
	data := raw[len("data:"):firstEnd]
	if len(data) > 0 && data[0] == ' ' {
		data = data[1:]
	}
	return Event{Raw: raw, Data: data}, nil
}

// join puts the parts of a large event and its tail together.
func (s *Scanner) join(tail []byte) []byte {
	raw := make([]byte, 0, s.partsBytes+len(tail))
	for i, p := range s.parts {
		raw = append(raw, p...)
		s.parts[i] = nil
	}
	s.parts, s.partsBytes = nil, 0
	return append(raw, tail...)
}

// end turns the reader's error into the stream's, once everything before it
// has been returned.
func (s *Scanner) end() error {
	var large *TooLargeError
	switch {
	case errors.As(s.err, &large), errors.Is(s.err, ErrTruncated), s.r == nil:
		return s.err
	case s.inEvent():
		if s.err == io.EOF {
			s.err = ErrTruncated
		} else {
			s.err = fmt.Errorf("%w: %w", ErrTruncated, s.err)
		}
	case s.err != io.EOF:
		s.err = fmt.Errorf("sse: read: %w", s.err)
	}
	s.r = nil
	return s.err
}

// inEvent reports whether bytes are left that could have become part of an
// event: anything but comments and the LF of a CR returned before.
func (s *Scanner) inEvent() bool {
	rest := s.buf[s.start:s.fill]
	if s.partsBytes > 0 {
		rest = s.join(rest)
	}
	if s.swallow && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	for len(rest) > 0 {
		var line []byte
		if line, rest = cutLine(rest); len(line) > 0 && line[0] != ':' {
			return true
		}
	}
	return false
}
