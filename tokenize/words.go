package tokenize

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// words turns words into ids: the BPE model proper.
type words struct {
	vocab vocab
	pairs pairTable

	byteLevel    bool
	ignoreMerges bool // a word that is a token is that token, reachable or not
	fallback     bool // characters without a token become one token per byte
	fuse         bool // neighbouring unknown characters become one token
	unk          uint32
	bytes        [256]uint32 // byte-level: symbol of a byte; else its fallback token
	ascii        [utf8.RuneSelf]uint32
	mark         string // the visible space, "" where the model has none
	markID       uint32 // its symbol, or none
	cuts         *cuts  // where long words may be cut, nil: nowhere

	whole wholeWords
	cache wordCache
}

// append adds the ids of one word of the pre-tokenizer to e.ids.
func (w *words) append(e *encoder, s string) {
	if w.byteLevel && len(s) == 1 && w.bytes[s[0]] != none {
		e.ids = append(e.ids, w.bytes[s[0]])
		return
	}
	hash := w.vocab.hash(s)
	if w.ignoreMerges {
		if id, ok := w.vocab.find(s, hash); ok {
			e.ids = append(e.ids, id)
			return
		}
	}
	if w.cuts == nil {
		w.segment(e, s, hash)
		return
	}
	for s != "" {
		n := w.cuts.next(s)
		w.segment(e, s[:n], w.vocab.hash(s[:n]))
		s = s[n:]
	}
}

// segment adds the ids that merging makes of s, which may take a short cut
// only to what merging would give.
func (w *words) segment(e *encoder, s string, hash uint64) {
	state := wholeNo
	var id uint32
	if !w.ignoreMerges || w.cuts != nil {
		var ok bool
		if id, ok = w.vocab.find(s, hash); ok {
			if state = w.whole.state(id); state == wholeYes {
				e.ids = append(e.ids, id)
				return
			}
		}
	}
	var ok bool
	if e.ids, ok = w.cache.get(e.ids, s, hash); ok {
		return
	}
	before := len(e.ids)
	w.symbols(&e.merger, s)
	e.ids = e.merger.appendMerged(e.ids, &w.pairs)
	if state == wholeUnknown {
		one := len(e.ids) == before+1 && e.ids[before] == id
		w.whole.learn(id, one)
		if one {
			return
		}
	}
	w.cache.put(s, hash, e.ids[before:])
}

// symbols fills m with the symbols of s before any merge.
func (w *words) symbols(m *merger, s string) {
	m.reset()
	unknown := false // the last symbol is one unknown character or more
	if w.byteLevel {
		for i := range len(s) {
			if id := w.bytes[s[i]]; id != none {
				m.add(id, s[i], &w.pairs)
				unknown = false
			} else {
				unknown = w.unknown(m, unknown)
			}
		}
		return
	}
	for i, n := 0, 0; i < len(s); i += n {
		var id uint32
		if id, n = w.character(s[i:]); id != none {
			char := s[i]
			if n > 1 {
				char = otherByte
			}
			m.add(id, char, &w.pairs)
			unknown = false
		} else if w.fallback {
			for j := i; j < i+n; j++ {
				m.add(w.bytes[s[j]], otherByte, &w.pairs)
			}
		} else {
			unknown = w.unknown(m, unknown)
		}
	}
}

// character returns the symbol of the first character of s, or none, and the
// character's width.
func (w *words) character(s string) (uint32, int) {
	if s[0] < utf8.RuneSelf {
		return w.ascii[s[0]], 1
	}
	if w.mark != "" && strings.HasPrefix(s, w.mark) {
		return w.markID, len(w.mark)
	}
	_, n := utf8.DecodeRuneInString(s)
	if id, ok := w.vocab.find(s[:n], w.vocab.hash(s[:n])); ok {
		return id, n
	}
	return none, n
}

// unknown adds the token for an unknown character, if the model has one.
// after says that another unknown character stands right before it.
func (w *words) unknown(m *merger, after bool) bool {
	if w.unk == none {
		return false
	}
	if !after || !w.fuse {
		m.add(w.unk, otherByte, &w.pairs)
	}
	return true
}

// wholeWords remembers of each token whether merging its own symbols gives
// back the token, so that a word which is a token needs no merging. What it is
// not told at first it learns as words come by. It is safe for concurrent use.
type wholeWords struct {
	bits []atomic.Uint32 // two per id
}

type wholeState uint32

const (
	wholeUnknown wholeState = iota
	wholeYes
	wholeNo
)

func newWholeWords(ids int) wholeWords { return wholeWords{make([]atomic.Uint32, ids/16+1)} }

// learnAll learns about all tokens but long ones, so that the first texts are
// encoded as fast as later ones.
func (w *words) learnAll() {
	const longest = 32
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), 4)
	for worker := range workers {
		wg.Go(func() {
			var m merger
			var ids []uint32
			for id := uint32(worker); int(id) < len(w.vocab.spans); id += uint32(workers) {
				if s, ok := w.vocab.token(id); ok && s != "" && len(s) <= longest {
					w.symbols(&m, s)
					ids = m.appendMerged(ids[:0], &w.pairs)
					w.whole.learn(id, len(ids) == 1 && ids[0] == id)
				}
			}
		})
	}
	wg.Wait()
}

func (w *wholeWords) state(id uint32) wholeState {
	return wholeState(w.bits[id/16].Load() >> (id % 16 * 2) & 3)
}

func (w *wholeWords) learn(id uint32, one bool) {
	state := wholeNo
	if one {
		state = wholeYes
	}
	w.bits[id/16].Or(uint32(state) << (id % 16 * 2))
}
