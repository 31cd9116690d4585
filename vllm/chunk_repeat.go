package vllm

import (
	"bytes"
	"slices"
)

const (
	maxRepeat = 1 << 10 // bytes a Chunk remembers of an earlier one
	maxHoles  = 6
)

// holeKind says what stands in a hole.
type holeKind uint8

const (
	holeText holeKind = iota // the text between the quotes of a string
	holePrompt
	holeCompletion
	holeCached
	holeOther // a count that a Chunk does not report
)

// hole is a place in a chunk whose content changes from one chunk of a stream
// to the next: the one text, and the counts of usage.
type hole struct {
	kind       holeKind
	start, end int
}

// mark is a place in one of the literals between holes.
type mark struct{ literal, offset int }

// chunkRepeat recognises a chunk that differs from an earlier one of the same
// stream in nothing but what is in its holes, as most do. Reading it again is
// not needed: with the same bytes before it a hole is in the same field of the
// same object; a text ends at its first quote and a number at its last digit,
// as they did; and what follows is then read as it was before.
type chunkRepeat struct {
	literals []byte
	ends     [maxHoles + 1]int // of each literal
	kinds    [maxHoles]holeKind
	holes    int

	id, model, usageStart, usageEnd mark
	idLen, modelLen                 int // with the quotes for the model, 0 without one
	hasUsage                        bool

	choices int
	role    bool
	usage   Usage
}

// again fills in c if data is like the chunk that was learnt.
func (c *Chunk) again(data []byte) bool {
	r := c.repeat
	if r == nil {
		return false
	}
	var at [maxHoles + 1]int // where the literals are in data
	text, usage := 0, r.usage
	for i, pos, from := 0, 0, 0; ; i++ {
		literal := r.literals[from:r.ends[i]]
		if !bytes.HasPrefix(data[pos:], literal) {
			return false
		}
		at[i] = pos
		pos += len(literal)
		from = r.ends[i]
		if i == r.holes {
			if pos < len(data) {
				return false
			}
			break
		}
		n := 0
		if r.kinds[i] == holeText {
			if n = stringBody(data[pos:]); n < 0 {
				return false
			}
			text = n
		} else if n = plainCount(data[pos:], r.kinds[i], &usage); n == 0 {
			return false
		}
		pos += n
	}
	c.clear()
	c.Choices, c.Role, c.Content, c.Usage = r.choices, r.role, text > 0, usage
	r.place(c, data, &at)
	return true
}

// place fills in what c says of places in data.
func (r *chunkRepeat) place(c *Chunk, data []byte, at *[maxHoles + 1]int) {
	if r.idLen > 0 {
		start := at[r.id.literal] + r.id.offset
		c.ID = data[start : start+r.idLen : start+r.idLen]
	}
	if r.modelLen > 0 {
		c.ModelStart = at[r.model.literal] + r.model.offset
		c.ModelEnd = c.ModelStart + r.modelLen
		c.Model = data[c.ModelStart+1 : c.ModelEnd-1 : c.ModelEnd-1]
	}
	if r.hasUsage {
		c.UsageStart = at[r.usageStart.literal] + r.usageStart.offset
		c.UsageEnd = at[r.usageEnd.literal] + r.usageEnd.offset
	}
}

// stringBody is the length of the text up to the quote that ends it, -1 if it
// is not the inside of a JSON string.
func stringBody(b []byte) int {
	for i := plain(b); i < len(b); i += plain(b[i:]) {
		if b[i] == '"' {
			return i
		}
		n := 0
		if b[i] == '\\' {
			n = escapeLen(b[i:])
		}
		if n == 0 {
			return -1
		}
		i += n
	}
	return -1
}

// plainCount reads a number of the usual form and returns its length, zero
// for any other.
func plainCount(b []byte, kind holeKind, u *Usage) int {
	n := digits(b)
	if n == 0 || n > 9 || n > 1 && b[0] == '0' {
		return 0
	}
	v := 0
	for _, c := range b[:n] {
		v = v*10 + int(c-'0')
	}
	switch kind {
	case holePrompt:
		u.Prompt = v
	case holeCompletion:
		u.Completion = v
	case holeCached:
		u.Cached = v
	}
	return n
}

// learn remembers the chunk just read if its only text, and nothing else,
// is what makes it one with content.
func (p *chunkParser) learn() {
	c := p.c
	if !c.Content || p.texts != 1 || p.filledOther || p.twice || p.holes > maxHoles ||
		c.Error || len(c.Finished) > 0 || len(p.data) > maxRepeat {
		return
	}
	holes := p.hole[:p.holes]
	id := p.idEnd - len(c.ID)
	if !bytes.Equal(c.ID, p.data[id:p.idEnd]) ||
		c.ModelEnd > 0 && !bytes.Equal(c.Model, p.data[c.ModelStart+1:c.ModelEnd-1]) {
		return // they have escapes
	}
	if c.repeat == nil {
		c.repeat = new(chunkRepeat)
	}
	r := c.repeat
	*r = chunkRepeat{
		literals: slices.Grow(r.literals[:0], len(p.data)), holes: len(holes), choices: c.Choices, role: c.Role, usage: c.Usage,
		id: markOf(holes, id), idLen: len(c.ID),
		model: markOf(holes, c.ModelStart), modelLen: c.ModelEnd - c.ModelStart,
		usageStart: markOf(holes, c.UsageStart), usageEnd: markOf(holes, c.UsageEnd), hasUsage: c.UsageEnd > 0,
	}
	from := 0
	for i, h := range holes {
		r.literals = append(r.literals, p.data[from:h.start]...)
		r.ends[i], r.kinds[i] = len(r.literals), h.kind
		from = h.end
	}
	r.literals = append(r.literals, p.data[from:]...)
	r.ends[len(holes)] = len(r.literals)
}

// markOf finds the literal that a place outside the holes is in.
func markOf(holes []hole, pos int) mark {
	m := mark{offset: pos}
	for i, h := range holes {
		if pos >= h.end {
			m = mark{literal: i + 1, offset: pos - h.end}
		}
	}
	return m
}
