package tokenize

import (
	"bytes"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/internal/jsonscan"
)

// builder assembles the BPE model proper from the file's vocab and merges.
type builder struct {
	words    *words
	alphabet *byteAlphabet // nil for a model that is not byte-level
	// raw has the tokens of a byte-level vocabulary that are not written in
	// the byte alphabet, and so cannot come out of text.
	raw     map[string]uint32
	tokens  int    // number of tokens
	last    uint32 // id that the last merge made
	text    []byte
	scratch []byte
}

// maxTokenBytes bounds the length of a token, maxVocabText that of all.
const (
	maxTokenBytes = 1 << 16
	maxVocabText  = 1 << 28
)

// vocabEntry is a member of the file's vocab.
type vocabEntry struct {
	id   uint32
	span span
	raw  bool // not written in the byte alphabet
}

// vocab reads {"token": id, …}.
func (b *builder) vocab(data []byte) error {
	entries, maxID, err := b.readVocab(data)
	if err != nil {
		return &FormatError{"model.vocab", err}
	}
	if uint64(maxID) > 8*uint64(len(entries))+1<<16 {
		return malformed("model.vocab", "id %d is out of proportion to %d tokens", maxID, len(entries))
	}
	b.tokens = len(entries)
	v := &b.words.vocab
	v.spans = make([]span, maxID+1)
	for i := range v.spans {
		v.spans[i].len = -1
	}
	v.text = view(b.text)
	v.grow(len(entries))
	for _, e := range entries {
		if v.spans[e.id].len >= 0 {
			return malformed("model.vocab", "two tokens have id %d", e.id)
		}
		v.spans[e.id] = e.span
		if e.raw {
			token, _ := v.token(e.id)
			b.raw[token] = e.id
			continue
		}
		if old := v.put(e.id); old != none {
			return malformed("model.vocab", "ids %d and %d are the same token", old, e.id)
		}
	}
	return nil
}

// readVocab reads the members and puts the tokens' bytes into b.text.
func (b *builder) readVocab(data []byte) (entries []vocabEntry, maxID uint32, err error) {
	entries = make([]vocabEntry, 0, len(data)/16)
	c := jsonscan.New(data)
	err = c.Object(func(key []byte) error {
		off := len(b.text)
		raw := b.alphabet == nil
		if !raw {
			var ok bool
			b.text, ok = b.alphabet.appendBytes(b.text, key)
			raw = !ok
		}
		if raw {
			b.text = append(b.text, key...)
		}
		id, err := c.Uint32()
		if err != nil {
			return err
		}
		if len(key) > maxTokenBytes || len(b.text) > maxVocabText {
			return fmt.Errorf("tokens too long")
		}
		maxID = max(maxID, id)
		entries = append(entries, vocabEntry{id, span{uint32(off), int32(len(b.text) - off)}, raw && b.alphabet != nil})
		return nil
	})
	if err == nil {
		err = c.End()
	}
	return entries, maxID, err
}

// tokenID returns the id of a token as the file writes it.
func (b *builder) tokenID(token []byte) (uint32, bool) {
	v := &b.words.vocab
	word := token
	if b.alphabet != nil {
		var ok bool
		if b.scratch, ok = b.alphabet.appendBytes(b.scratch[:0], token); !ok {
			id, found := b.raw[string(token)]
			return id, found
		}
		word = b.scratch
	}
	s := view(word)
	return v.find(s, v.hash(s))
}

// merges reads ["left right", …] or [["left", "right"], …].
func (b *builder) merges(data []byte) error {
	b.words.pairs = newPairTable(guessMerges(data))
	rank := uint32(0)
	c := jsonscan.New(data)
	var left, right, joined [256]byte
	err := c.Array(func() error {
		l, r, err := readMerge(c, left[:0], right[:0])
		if err != nil {
			return err
		}
		if err := b.merge(l, r, joined[:0], rank); err != nil {
			return fmt.Errorf("merge %d: %w", rank, err)
		}
		rank++
		return nil
	})
	if err == nil {
		err = c.End()
	}
	if err != nil {
		return &FormatError{"model.merges", err}
	}
	return nil
}

func (b *builder) merge(l, r, joined []byte, rank uint32) error {
	left, ok := b.tokenID(l)
	if !ok {
		return fmt.Errorf("%q is not in the vocabulary", l)
	}
	right, ok := b.tokenID(r)
	if !ok {
		return fmt.Errorf("%q is not in the vocabulary", r)
	}
	id := b.last + 1
	if !b.isJoined(id, left, right) {
		if id, ok = b.tokenID(append(append(joined, l...), r...)); !ok {
			return fmt.Errorf("%q is not in the vocabulary", string(l)+string(r))
		}
	}
	b.last = id
	if b.isFallback(left) || b.isFallback(right) || b.isFallback(id) {
		return &UnsupportedError{"model.merges", "a merge of a byte fallback or unknown token"}
	}
	b.words.pairs.put(left, right, rank, id)
	return nil
}

// isJoined says whether an id is the token that two others make. Merges are
// mostly listed in the order of the tokens they make, so that the next id is
// a good guess, cheaper to check than to look up. With tokens outside the byte
// alphabet about, bytes do not tell what the file says, and it says no.
func (b *builder) isJoined(id, left, right uint32) bool {
	token, ok := b.words.vocab.token(id)
	if !ok || len(b.raw) > 0 {
		return false
	}
	l, _ := b.words.vocab.token(left)
	r, _ := b.words.vocab.token(right)
	return len(token) == len(l)+len(r) && token[:len(l)] == l && token[len(l):] == r
}

// isFallback says whether an id stands for what has no token of its own.
func (b *builder) isFallback(id uint32) bool {
	if id == b.words.unk {
		return true
	}
	if b.alphabet != nil || !b.words.fallback {
		return false
	}
	token, _ := b.words.vocab.token(id)
	_, is := byteToken(token)
	return is
}

// readMerge reads one merge in either form.
func readMerge(c *jsonscan.Cursor, left, right []byte) (l, r []byte, err error) {
	if c.Peek() == '"' {
		s, err := c.String(left)
		if err != nil {
			return nil, nil, err
		}
		at := -1
		for i, ch := range s {
			if ch != ' ' {
				continue
			}
			if at >= 0 {
				return nil, nil, fmt.Errorf("merge %q has more than one space", s)
			}
			at = i
		}
		if at < 0 {
			return nil, nil, fmt.Errorf("merge %q has no space", s)
		}
		return s[:at], s[at+1:], nil
	}
	n := 0
	err = c.Array(func() error {
		var err error
		switch n++; n {
		case 1:
			l, err = c.String(left)
		case 2:
			r, err = c.String(right)
		default:
			err = fmt.Errorf("merge of more than two tokens")
		}
		return err
	})
	if err == nil && n != 2 {
		err = fmt.Errorf("merge of %d tokens", n)
	}
	return l, r, err
}

// guessMerges returns about the number of merges in the text of an array, from
// the number of its quotation marks.
func guessMerges(data []byte) int {
	n := bytes.Count(data, []byte{'"'}) / 2
	if inner := bytes.TrimLeft(data, " \t\r\n["); len(data)-len(inner) > 1 && bytes.IndexByte(data[1:len(data)-len(inner)], '[') >= 0 {
		n /= 2 // lists of two strings
	}
	return n
}

// symbols fills the tables of first symbols, and finds where to cut.
func (b *builder) symbols(mark string) error {
	w := b.words
	v := &w.vocab
	for i := range w.bytes {
		token := string(rune(i))
		switch {
		case b.alphabet != nil:
			token = string([]byte{byte(i)})
		case w.fallback:
			token = fmt.Sprintf("<0x%02X>", i)
		}
		w.bytes[i] = none
		if id, ok := v.find(token, v.hash(token)); ok {
			w.bytes[i] = id
		} else if w.fallback && b.alphabet == nil {
			return &UnsupportedError{"model.byte_fallback", "a vocabulary without " + token}
		}
	}
	for i := range w.ascii {
		token := string(rune(i))
		w.ascii[i] = none
		if id, ok := v.find(token, v.hash(token)); ok {
			w.ascii[i] = id
		}
	}
	if w.mark = mark; mark != "" {
		w.markID = none
		if id, ok := v.find(mark, v.hash(mark)); ok && utf8.RuneCountInString(mark) == 1 {
			w.markID = id
		} else {
			w.mark = "" // looked up like any other text
		}
	}
	ownSymbols := w.fallback || w.unk != none && !w.fuse
	if b.alphabet != nil || !ownSymbols || utf8.RuneCountInString(mark) != 1 || len(mark) == 1 {
		return nil
	}
	w.cuts = newCuts(mark, func(yield func(string) bool) {
		for i := range w.pairs.slots {
			if s := &w.pairs.slots[i]; s.left != none {
				if token, _ := v.token(s.id); !yield(token) {
					return
				}
			}
		}
	})
	return nil
}

// finish makes the caches, once vocab, merges and symbols are in place.
func (b *builder) finish() error {
	if len(b.words.vocab.spans) > math.MaxInt32 {
		return malformed("model.vocab", "too many ids")
	}
	b.words.whole = newWholeWords(len(b.words.vocab.spans))
	b.words.cache = newWordCache()
	b.words.pairs.index(func(char byte) uint32 {
		if b.words.byteLevel {
			return b.words.bytes[char]
		}
		return b.words.ascii[char]
	})
	if !b.words.ignoreMerges {
		b.words.learnAll()
	}
	return nil
}
