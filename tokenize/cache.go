package tokenize

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Cache is a tokenizer that remembers what stands between added tokens: the
// turns of conversations, system prompts, lists of tools. A conversation comes
// back with each of its turns, so all but the last two or three are found. Text
// between two added tokens is encoded the same whatever surrounds them, so the ids are
// always those the tokenizer itself gives. What is seen for the first time is
// only noted: prompts that never come again take no room from conversations.
// It is safe for concurrent use; its memory is bounded.
type Cache struct {
	b    *BPE
	max  int // bytes of entries
	seed maphash.Seed

	mu   sync.Mutex
	used int // bytes
	part map[uint64]*cached
	ring cached   // ring.next is the entry used last
	seen []uint32 // half of the keys of pieces seen last, at places that the keys give
}

// cached is a piece of text with its ids. Text, ids and what blocks points to
// do not change.
type cached struct {
	text   string
	first  bool // the piece starts its text
	ids    []uint32
	key    uint64
	blocks atomic.Pointer[cachedBlocks]

	next, prev *cached
}

// cachedBlocks are the hashes of the blocks that a piece completes, for one
// state of the chain in front of it.
type cachedBlocks struct {
	chain   uint64
	partial []uint32 // ids of the block that the piece continues
	size    int
	hashes  []uint64
}

const (
	// cacheAtLeast is the length in bytes below which encoding is as fast as
	// looking up.
	cacheAtLeast = 192
	// cachedOverhead is about what an entry takes beside its contents.
	cachedOverhead = cachedSize + 64
	// seenPer is how many bytes of memory there are for each note of a piece
	// seen once, and maxSeen how many notes at most.
	seenPer = 128
	maxSeen = 1 << 20
)

// NewCache returns a cache in front of b that takes up to about maxBytes of
// memory. With fewer than a few thousand it remembers nothing.
func NewCache(b *BPE, maxBytes int) *Cache {
	maxBytes = max(0, maxBytes)
	seen := make([]uint32, min(maxBytes/seenPer, maxSeen)+1)
	c := &Cache{b: b, max: maxBytes - 4*len(seen), seed: maphash.MakeSeed(), part: map[uint64]*cached{}, seen: seen}
	c.ring.next, c.ring.prev = &c.ring, &c.ring
	return c
}

// Append appends the ids of text to dst, as BPE.Append does.
func (c *Cache) Append(dst []uint32, text string) ([]uint32, error) {
	return c.AppendWith(dst, text, Options{})
}

// AppendWith appends the ids of text to dst, as BPE.AppendWith does.
func (c *Cache) AppendWith(dst []uint32, text string, opt Options) ([]uint32, error) {
	before, after := c.b.around(opt)
	return c.b.appendAround(dst, text, opt, &surround{before: before, after: after, cache: c})
}

// Blocks says how to hash ids in blocks.
type Blocks struct {
	// Append appends to dst the hash of each full block of size ids, chained
	// from seed: the hash of a block is the seed of the next one. All calls
	// with one Cache must use the same function.
	Append func(dst []uint64, seed uint64, ids []uint32, size int) []uint64
	Seed   uint64 // of the first block
	Size   int    // ids per block, at least 1

	// MaxTokens is the largest number of ids that a Model appends for one
	// conversation; encoding stops there with ErrTooLong. If zero, the
	// Model's own limit.
	MaxTokens int
}

// AppendBlocks is AppendWith and also appends to hashes those of the full
// blocks of the ids appended. The hashes of remembered pieces are remembered.
func (c *Cache) AppendBlocks(dst []uint32, hashes []uint64, text string, opt Options, by Blocks) ([]uint32, []uint64, error) {
	before, after := c.b.around(opt)
	h := &hasher{by: by, hashes: hashes, chain: by.Seed, done: len(dst)}
	dst, err := c.b.appendAround(dst, text, opt, &surround{before: before, after: after, cache: c, hasher: h})
	if err == nil {
		h.upTo(dst)
	}
	return dst, h.hashes, err
}

// encode adds the ids of a piece of text to e.ids.
func (c *Cache) encode(e *encoder, s string, first bool) {
	if len(s) < cacheAtLeast {
		e.part(s, first)
		return
	}
	start, key := len(e.ids), c.key(s, first)
	found, again := c.find(key, s, first)
	if found != nil {
		e.ids = append(e.ids, found.ids...)
		if len(e.ids) > e.stop {
			e.full()
		}
	} else {
		e.part(s, first)
		if again && e.err == nil {
			found = c.add(key, s, first, e.ids[start:])
		}
	}
	if h := e.around.hasher; h != nil && found != nil && e.err == nil {
		h.piece(e.ids, start, found)
	}
}

func (c *Cache) key(s string, first bool) uint64 {
	key := maphash.String(c.seed, s)
	if first {
		key = ^key
	}
	return key
}

// find returns the entry of a piece, or nil and whether the piece has been
// asked for not long ago.
func (c *Cache) find(key uint64, s string, first bool) (found *cached, again bool) {
	c.mu.Lock()
	e := c.part[key]
	if e != nil {
		e.unlink()
		e.linkAfter(&c.ring)
	} else {
		again = c.noteLocked(key)
	}
	c.mu.Unlock()
	if e == nil || e.text != s || e.first != first {
		return nil, again
	}
	return e, true
}

// noteLocked notes that a piece was asked for, and reports whether that was noted
// already.
func (c *Cache) noteLocked(key uint64) (again bool) {
	at := &c.seen[key%uint64(len(c.seen))]
	mark := uint32(key>>32) | 1 // a place without a note is 0
	again = *at == mark
	*at = mark
	return again
}

// add makes an entry, unless it would take too large a part of the cache.
func (c *Cache) add(key uint64, s string, first bool, ids []uint32) *cached {
	e := &cached{text: s, first: first, ids: ids, key: key}
	if e.cost() > c.max/8 {
		return nil
	}
	e.text, e.ids = strings.Clone(s), slices.Clone(ids)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.part[e.key]; old != nil {
		c.removeLocked(old)
	}
	c.part[e.key] = e
	e.linkAfter(&c.ring)
	c.used += e.cost()
	for c.used > c.max {
		c.removeLocked(c.ring.prev)
	}
	return e
}

func (c *Cache) removeLocked(e *cached) {
	e.unlink()
	delete(c.part, e.key)
	c.used -= e.cost()
}

// cost returns about the bytes that an entry takes, its block hashes included:
// one for each id would be for blocks of one.
func (e *cached) cost() int { return len(e.text) + 4*len(e.ids) + len(e.ids) + cachedOverhead }

func (e *cached) linkAfter(at *cached) {
	e.prev, e.next = at, at.next
	at.next.prev, at.next = e, e
}

func (e *cached) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
}

// hasher hashes ids in blocks while they are produced.
type hasher struct {
	by     Blocks
	hashes []uint64
	chain  uint64
	done   int // ids[:done] are hashed
}

// upTo hashes the full blocks of ids that are not hashed yet.
func (h *hasher) upTo(ids []uint32) {
	before := len(h.hashes)
	h.hashes = h.by.Append(h.hashes, h.chain, ids[h.done:], h.by.Size)
	h.advance(len(h.hashes) - before)
}

// advance accounts for n hashes appended.
func (h *hasher) advance(n int) {
	if n > 0 {
		h.chain = h.hashes[len(h.hashes)-1]
		h.done += n * h.by.Size
	}
}

// piece hashes the full blocks up to the end of ids, the last of which, from
// start on, are those of e.
func (h *hasher) piece(ids []uint32, start int, e *cached) {
	h.upTo(ids[:start])
	partial := ids[h.done:start]
	if m := e.blocks.Load(); m != nil && m.chain == h.chain && m.size == h.by.Size && slices.Equal(m.partial, partial) {
		h.hashes = append(h.hashes, m.hashes...)
		h.advance(len(m.hashes))
		return
	}
	m := &cachedBlocks{chain: h.chain, partial: slices.Clone(partial), size: h.by.Size}
	before := len(h.hashes)
	h.upTo(ids)
	m.hashes = slices.Clone(h.hashes[before:])
	if 8*len(m.hashes)+4*len(m.partial) <= len(e.ids)+64 {
		e.blocks.Store(m)
	}
}
