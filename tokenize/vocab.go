package tokenize

import "hash/maphash"

// none marks the absence of an id.
const none = ^uint32(0)

// vocab maps tokens to ids and back. Once built it is read-only.
type vocab struct {
	text  string // the tokens' bytes, one after the other
	spans []span // by id; an absent id has a negative length
	// table is an open-addressing hash table. An entry is 0 where free, else
	// the upper half of the token's hash and its id plus one.
	table []uint64
	seed  maphash.Seed
}

type span struct {
	off uint32
	len int32
}

// hash returns the hash of a word that find and put take.
func (v *vocab) hash(word string) uint64 { return maphash.String(v.seed, word) }

// token returns the bytes of an id.
func (v *vocab) token(id uint32) (string, bool) {
	if uint64(id) >= uint64(len(v.spans)) || v.spans[id].len < 0 {
		return "", false
	}
	s := v.spans[id]
	return v.text[s.off : s.off+uint32(s.len)], true
}

// find returns the id of a word, given its hash.
func (v *vocab) find(word string, hash uint64) (uint32, bool) {
	mask := uint64(len(v.table) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := v.table[i]
		if e == 0 {
			return 0, false
		}
		if (e^hash)>>32 != 0 {
			continue
		}
		id := uint32(e) - 1
		s := v.spans[id]
		if int(s.len) == len(word) && v.text[s.off:s.off+uint32(s.len)] == word {
			return id, true
		}
	}
}

// grow makes room for n words. It must be called before put.
func (v *vocab) grow(n int) {
	size := 16
	for size < n+n/2+1 {
		size *= 2
	}
	v.table = make([]uint64, size)
	v.seed = maphash.MakeSeed()
}

// put makes an id, whose span is set, findable by its bytes. It returns the id
// that the same bytes had before, or none.
func (v *vocab) put(id uint32) uint32 {
	word, _ := v.token(id)
	hash := v.hash(word)
	if old, ok := v.find(word, hash); ok {
		return old
	}
	mask := uint64(len(v.table) - 1)
	i := hash & mask
	for v.table[i] != 0 {
		i = (i + 1) & mask
	}
	v.table[i] = hash&^0xFFFFFFFF | uint64(id+1)
	return none
}
