package tokenize

import "sync/atomic"

// wordCache remembers the ids of words that are not a single token. It has a
// fixed number of entries, each overwritten by the next word with the same
// hash bits. It is safe for concurrent use without locks: an entry is a
// sequence number and data that counts only if the number did not change while
// the data was read.
type wordCache struct {
	entries []wordEntry
}

const (
	cacheEntries = 1 << 15
	cacheWord    = 72 // bytes of the longest word kept
	cacheIDs     = 13 // ids of the longest result kept
)

type wordEntry struct {
	seq  atomic.Uint32 // odd while the entry is being written
	size atomic.Uint32 // bytes of the word in the low half, number of ids above
	word [cacheWord / 8]atomic.Uint64
	ids  [(cacheIDs + 1) / 2]atomic.Uint64
	hash atomic.Uint64
}

func newWordCache() wordCache { return wordCache{make([]wordEntry, cacheEntries)} }

func (c *wordCache) at(hash uint64) *wordEntry {
	return &c.entries[hash>>32%cacheEntries]
}

// get appends the ids of a word to dst, if the cache has them.
func (c *wordCache) get(dst []uint32, word string, hash uint64) ([]uint32, bool) {
	e := c.at(hash)
	seq := e.seq.Load()
	size := e.size.Load()
	if seq&1 != 0 || int(size&0xFFFF) != len(word) || e.hash.Load() != hash {
		return dst, false
	}
	for i := 0; i*8 < len(word); i++ {
		if e.word[i].Load() != load8(word, i*8) {
			return dst, false
		}
	}
	n, before := int(size>>16), len(dst)
	for i := 0; i < n; i += 2 {
		two := e.ids[i/2].Load()
		dst = append(dst, uint32(two), uint32(two>>32))
	}
	if e.seq.Load() != seq {
		return dst[:before], false
	}
	return dst[:before+n], true
}

// put keeps the ids of a word, if both are short enough.
func (c *wordCache) put(word string, hash uint64, ids []uint32) {
	if len(word) == 0 || len(word) > cacheWord || len(ids) > cacheIDs {
		return
	}
	e := c.at(hash)
	seq := e.seq.Load()
	if seq&1 != 0 || !e.seq.CompareAndSwap(seq, seq+1) {
		return // somebody else is writing it
	}
	for i := 0; i*8 < len(word); i++ {
		e.word[i].Store(load8(word, i*8))
	}
	for i := 0; i < len(ids); i += 2 {
		two := uint64(ids[i])
		if i+1 < len(ids) {
			two |= uint64(ids[i+1]) << 32
		}
		e.ids[i/2].Store(two)
	}
	e.hash.Store(hash)
	e.size.Store(uint32(len(word)) | uint32(len(ids))<<16)
	e.seq.Store(seq + 2)
}

// load8 returns up to eight bytes of s at i as a number, zeros after the end.
func load8(s string, i int) uint64 {
	if i+8 <= len(s) {
		b := s[i : i+8]
		return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
	}
	var v uint64
	for j := i; j < len(s); j++ {
		v |= uint64(s[j]) << (8 * (j - i))
	}
	return v
}
