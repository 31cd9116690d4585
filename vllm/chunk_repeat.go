package vllm

import "bytes"

// maxRepeat bounds what a Chunk remembers of an earlier one.
const maxRepeat = 1 << 10

// chunkRepeat recognises a chunk that differs from an earlier one of the same
// stream in nothing but its text, as most do. Reading it again is not
// needed: with the same bytes before it the text is the same field of the
// same choice; while it holds no quote of its own it ends where the tail
// begins; and the tail is then read as it was before.
type chunkRepeat struct {
	head, tail []byte // up to the text's opening quote, and from its closing quote

	// All within head; zero without the field.
	id, idEnd, model, modelEnd int

	choices int
	role    bool
}

// again fills in c if data is like the chunk that was learnt.
func (c *Chunk) again(data []byte) bool {
	r := &c.repeat
	if len(r.head) == 0 || len(data) < len(r.head)+len(r.tail) ||
		!bytes.HasPrefix(data, r.head) || !bytes.HasSuffix(data, r.tail) {
		return false
	}
	text := data[len(r.head) : len(data)-len(r.tail)]
	if !isStringBody(text) {
		return false
	}
	c.clear()
	c.Choices, c.Role, c.Content = r.choices, r.role, len(text) > 0
	c.ID = data[r.id:r.idEnd:r.idEnd]
	if r.modelEnd > 0 {
		c.Model = data[r.model+1 : r.modelEnd-1 : r.modelEnd-1]
		c.ModelStart, c.ModelEnd = r.model, r.modelEnd
	}
	return true
}

// isStringBody reports whether b may stand between the quotes of a string.
func isStringBody(b []byte) bool {
	for i := plain(b); i < len(b); i += plain(b[i:]) {
		n := 0
		if b[i] == '\\' {
			n = escapeLen(b[i:])
		}
		if n == 0 {
			return false
		}
		i += n
	}
	return true
}

// learn remembers the chunk just read if its only text, and nothing else,
// is what makes it one with content.
func (p *chunkParser) learn() {
	c, r := p.c, &p.c.repeat
	size := len(p.data) - (p.textEnd - p.text0)
	if !c.Content || p.texts != 1 || p.textEnd == p.text0 || p.fills > 0 || size > maxRepeat ||
		c.Error || c.UsageEnd > 0 || len(c.Finished) > 0 {
		return
	}
	id, idEnd := p.idEnd-len(c.ID), p.idEnd
	if idEnd > p.text0 || c.ModelEnd > p.text0 || !bytes.Equal(c.ID, p.data[id:idEnd]) ||
		c.ModelEnd > 0 && !bytes.Equal(c.Model, p.data[c.ModelStart+1:c.ModelEnd-1]) {
		return
	}
	r.head = append(r.head[:0], p.data[:p.text0]...)
	r.tail = append(r.tail[:0], p.data[p.textEnd:]...)
	r.id, r.idEnd, r.model, r.modelEnd = id, idEnd, c.ModelStart, c.ModelEnd
	r.choices, r.role = c.Choices, c.Role
}
