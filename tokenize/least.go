package tokenize

import "unicode/utf8"

// least knows how many tokens a text has at least, from its bytes alone, so
// that a text far beyond a limit is refused before any of it is merged. A
// token of n bytes has room for n bytes that occur in tokens of n bytes or
// more; so if each byte counts as one part in the length of the longest token
// that has it, no token holds more than one in sum.
type least struct {
	// weight is the part by byte, in units of 1/leastUnit, rounded down. It is
	// zero for bytes that may be absent from what is merged.
	weight [256]uint32
	// changes says that of a text that is not normalized yet only ASCII before
	// ASCII, or at the end, is sure to arrive unchanged.
	changes bool
}

const leastUnit = 1 << 24

// newLeast looks at all tokens of b, or returns nil where the bytes of a text
// do not tell.
func newLeast(b *BPE, raw map[string]uint32) *least {
	w := &b.words
	l := &least{changes: len(b.normal) > 0}
	spaces := b.meta != nil // spaces become marks
	for _, step := range b.normal {
		switch {
		case step.kind != normalReplace:
		case step.from != " ":
			return nil
		default:
			spaces = true
		}
	}
	unlike := map[uint32]bool{} // tokens whose bytes are not those of a text
	for _, id := range raw {
		unlike[id] = true
	}
	if len(unlike) > 0 {
		for i := range w.pairs.slots {
			if s := &w.pairs.slots[i]; s.left != none && (unlike[s.left] || unlike[s.right] || unlike[s.id]) {
				return nil
			}
		}
	}
	var longest [256]uint32
	see := func(token string) {
		n := uint32(len(token))
		for i := range len(token) {
			longest[token[i]] = max(longest[token[i]], n)
		}
	}
	for id := range w.vocab.spans {
		if token, ok := w.vocab.token(uint32(id)); ok && !unlike[uint32(id)] {
			see(token)
		}
	}
	var n normalBuffers
	for _, token := range b.added {
		see(token)
		see(n.normalize(b.normal, token)) // which some are recognised in
	}
	for c, n := range longest {
		switch {
		case n == 0, c == ' ' && spaces:
		case w.byteLevel && w.bytes[c] == none:
		case !w.byteLevel && c < utf8.RuneSelf && w.ascii[c] == none:
		case !w.byteLevel && c >= utf8.RuneSelf && !w.fallback:
		default:
			l.weight[c] = leastUnit / n
		}
	}
	return l
}

// exceeds reports whether text, not normalized yet, is sure to have more than n
// tokens.
func (l *least) exceeds(text string, n int) bool {
	if l == nil || len(text) <= n {
		return false
	}
	if !l.changes {
		return l.exceedsNormal(text, n)
	}
	sum, last := uint64(0), len(text)-1
	for i := range last {
		if text[i]|text[i+1] < utf8.RuneSelf {
			sum += uint64(l.weight[text[i]])
		}
	}
	if text[last] < utf8.RuneSelf {
		sum += uint64(l.weight[text[last]])
	}
	return sum/leastUnit > uint64(n)
}

// exceedsNormal is exceeds for normalized text.
func (l *least) exceedsNormal(text string, n int) bool {
	if l == nil || len(text) <= n {
		return false
	}
	sum := uint64(0)
	for i := range len(text) {
		sum += uint64(l.weight[text[i]])
	}
	return sum/leastUnit > uint64(n)
}
