package sse

import "bytes"

// Event is one block of an event stream: all lines up to and including the
// blank line that ends it. Its slices point into the Scanner's memory and are
// valid until the next call of Next or Reset.
type Event struct {
	// Raw holds the block as received, terminator included. The Raw of all
	// events joined are the bytes of the stream, save for four things that
	// no reader of the stream can see: a byte order mark at the start is
	// left out; so are lines at the start of an event that begin with one,
	// which are fields that nobody knows; a final CR whose LF has not arrived
	// yet is given its LF at once if the line before it ended in CRLF, and is
	// left without it for good if not.
	Raw []byte

	// Data is the event's data: the values of its data lines joined with
	// LF. With one data line it is a part of Raw.
	Data []byte

	// Type is the value of the last event field, or empty.
	Type string

	// ID is the value of the last id field, nil without one. A value with a
	// NUL byte does not count.
	ID []byte

	// Comment reports that the block has no data field: comments, a lone
	// blank line, or other fields only. Readers dispatch nothing for it.
	Comment bool
}

// Empty reports whether the event carries no data, so that it must not be
// sent on: a reader that follows the standard ignores it, or gets an event it
// cannot use, and others have been seen to fail on it. An id or a retry field
// in such a block is lost with it.
func (e *Event) Empty() bool { return len(e.Data) == 0 }

// parse fills in everything but Raw from the block's lines.
func (s *Scanner) parse(raw []byte) Event {
	ev := Event{Raw: raw, Comment: true}
	joined := false
	for rest := raw; len(rest) > 0; {
		line, tail := cutLine(rest)
		rest = tail
		name, value := cutField(line)
		switch string(name) {
		case "data":
			switch {
			case ev.Comment:
				ev.Data, ev.Comment = value, false
			case !joined:
				s.joined = append(append(append(s.joined[:0], ev.Data...), '\n'), value...)
				ev.Data, joined = s.joined, true
			default:
				s.joined = append(append(s.joined, '\n'), value...)
				ev.Data = s.joined
			}
		case "event":
			if string(value) != s.lastType {
				s.lastType = string(value)
			}
			ev.Type = s.lastType
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				ev.ID = value
			}
		}
	}
	return ev
}

// cutLine splits off the first line, without its line end: CR, LF or CRLF.
func cutLine(b []byte) (line, rest []byte) {
	i := lineEnd(b)
	if i < 0 {
		return b, nil
	}
	line, rest = b[:i], b[i+1:]
	if b[i] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return line, rest
}

// window is how far a search for one kind of line end goes before the other
// kind is looked for.
const window = 1 << 10

// lineEnd returns the index of the first CR or LF, -1 without one. It looks
// at a window at a time, so that many short lines that all end in the same
// one of the two do not each cost a search of everything for the other.
func lineEnd(b []byte) int {
	for off := 0; off < len(b); off += window {
		w := b[off:min(off+window, len(b))]
		lf := bytes.IndexByte(w, '\n')
		if lf >= 0 {
			w = w[:lf]
		}
		if cr := bytes.IndexByte(w, '\r'); cr >= 0 {
			return off + cr
		}
		if lf >= 0 {
			return off + lf
		}
	}
	return -1
}

// cutField splits a line at its first colon and takes one space off the
// value. A comment has an empty name; a line without a colon is a name.
func cutField(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}
