package tokenize

import (
	"slices"
	"strings"

	"github.com/expediterhq/expediter/tokenize/internal/pattern"
)

// encoder carries a text through the steps of encoding. It is scratch space
// that calls take from a pool.
type encoder struct {
	b       *BPE
	ids     []uint32
	base    int // ids[base:] were produced by this call
	done    int // ids handed to visit already, or counted
	max     int // ids allowed
	stop    int // length of ids beyond which full must look
	err     error
	visit   func([]uint32) error
	count   bool
	around  surround
	normal  normalBuffers
	meta    []byte
	merger  merger
	machine pattern.Machine
	shorts  shortWords
}

func (e *encoder) size() int {
	return cap(e.ids)*4 + cap(e.normal.bufs[0]) + cap(e.normal.bufs[1]) + cap(e.meta) +
		cap(e.merger.syms)*symbolSize + e.merger.long.size()
}

// text encodes a whole text with what goes around it.
func (e *encoder) text(text string) error {
	e.ids = append(e.ids, e.around.before...)
	at := 0
	for _, span := range e.around.ordinary {
		e.recognise(text[at:span.Start], at == 0)
		if span.Start < span.End && e.err == nil {
			e.ordinary(text[span.Start:span.End], span.Start == 0)
		}
		at = span.End
	}
	e.recognise(text[at:], at == 0)
	e.ids = append(e.ids, e.around.after...)
	if len(e.ids) > e.stop && e.err == nil {
		e.full()
	}
	return e.err
}

// recognise encodes text in which added tokens are recognised. first says that
// it starts the whole text.
func (e *encoder) recognise(text string, first bool) {
	for i := 0; i < len(text) && e.err == nil; {
		start, end, id := e.b.before.next(text, i)
		if start > i {
			e.cachedPart(text[i:start], first && i == 0)
		}
		if start < len(text) {
			e.emit(id)
		}
		i = end
	}
}

// ordinary encodes text in which no added token is recognised.
func (e *encoder) ordinary(s string, first bool) {
	if e.b.after == nil {
		e.cachedPart(s, first)
		return
	}
	e.normalized(e.normal.normalize(e.b.normal, s), first)
}

// cachedPart is part, by way of the cache if there is one.
func (e *encoder) cachedPart(s string, first bool) {
	if c := e.around.cache; c != nil {
		c.encode(e, s, first)
		return
	}
	e.part(s, first)
}

// part encodes text between added tokens. first says that it starts the text.
func (e *encoder) part(s string, first bool) {
	s = e.normal.normalize(e.b.normal, s)
	if e.b.after == nil {
		e.normalized(s, first)
		return
	}
	for i := 0; i < len(s) && e.err == nil; {
		start, end, id := e.b.after.next(s, i)
		if start > i {
			e.normalized(s[i:start], first && i == 0)
		}
		if start < len(s) {
			e.emit(id)
		}
		i = end
	}
}

// normalized encodes normalized text that holds no added token.
func (e *encoder) normalized(s string, first bool) {
	if left := e.max - e.done - (len(e.ids) - e.base); e.b.least.exceedsNormal(s, left) {
		e.err = &LimitError{"tokens", e.max}
		return
	}
	if m := e.b.meta; m != nil {
		e.meta = m.appendTo(e.meta[:0], s, first)
		s = view(e.meta)
		for m.split && s != "" && e.err == nil {
			n := m.piece(s)
			e.split(0, s[:n])
			s = s[n:]
		}
		if m.split {
			return
		}
	}
	e.split(0, s)
}

// split cuts s with the scanners from number k on, and encodes the pieces: the
// matches and what lies between them.
func (e *encoder) split(k int, s string) {
	if k == len(e.b.scanners) {
		e.word(s)
		return
	}
	scanner, last := e.b.scanners[k], k == len(e.b.scanners)-1
	for i := 0; i < len(s); {
		start, end, err := scanner.Next(s, i, &e.machine)
		if err != nil {
			e.err = ErrTooComplex
		}
		if e.err != nil {
			return
		}
		if start > i {
			e.split(k+1, s[i:start])
		}
		if end > start {
			if last {
				e.word(s[start:end])
			} else {
				e.split(k+1, s[start:end])
			}
		}
		i = end
	}
}

// emit adds one id.
func (e *encoder) emit(id uint32) {
	e.ids = append(e.ids, id)
	if len(e.ids) > e.stop {
		e.full()
	}
}

// word adds the ids of one word of the pre-tokenizer.
func (e *encoder) word(s string) {
	if uint(len(s)-1) < shortWord {
		e.short(s)
	} else {
		e.b.words.append(e, s)
	}
	if len(e.ids) > e.stop {
		e.full()
	}
}

// short adds the ids of a word of 1 to 8 bytes.
func (e *encoder) short(s string) {
	entry, key := e.shorts.at(s)
	if entry.key == key && int(entry.size) == len(s) {
		e.ids = append(e.ids, entry.id)
		return
	}
	before := len(e.ids)
	e.b.words.append(e, s)
	if len(e.ids) == before+1 {
		*entry = shortEntry{key: key, id: e.ids[before], size: uint32(len(s))}
	}
}

// full is called when there are more ids than stop.
func (e *encoder) full() {
	n := len(e.ids) - e.base
	if n > e.max-e.done {
		e.err = &LimitError{"tokens", e.max}
		return
	}
	if e.visit == nil && !e.count {
		return
	}
	if e.visit != nil {
		if err := e.visit(e.ids); err != nil {
			e.err = err
			return
		}
	}
	e.done += n
	e.ids = e.ids[:0]
	e.stop = min(chunkIDs, e.max-e.done)
}

// metaspace is the pre-tokenizer of SentencePiece models: it writes spaces as
// a visible character.
type metaspace struct {
	mark   string // the visible character
	scheme prependScheme
	split  bool // each mark starts a piece of its own
}

type prependScheme uint8

const (
	prependNever  prependScheme = iota
	prependFirst                // at the start of the text
	prependAlways               // at the start of every part between added tokens
)

// appendTo appends s in its visible form.
func (m *metaspace) appendTo(dst []byte, s string, first bool) []byte {
	if m.scheme == prependAlways || m.scheme == prependFirst && first {
		if s[0] != ' ' && !strings.HasPrefix(s, m.mark) {
			dst = append(dst, m.mark...)
		}
	}
	n := len(dst)
	dst = slices.Grow(dst, len(s)+strings.Count(s, " ")*(len(m.mark)-1))
	dst = dst[:cap(dst)]
	for i := range len(s) {
		if s[i] == ' ' {
			n += copy(dst[n:], m.mark)
			continue
		}
		dst[n] = s[i]
		n++
	}
	return dst[:n]
}

// piece returns the length of the first part of s, which is not empty: the
// parts but the first start at a mark.
func (m *metaspace) piece(s string) int {
	if i := strings.Index(s[1:], m.mark); i >= 0 {
		return i + 1
	}
	return len(s)
}
