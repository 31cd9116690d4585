package prefix

import "math/rand/v2"

// mixer maps keys to mixed keys, one to one, by two secret odd numbers. Whoever
// writes prompts chooses keys, and could otherwise give many the same place in
// a table. The upper half of the mixed key depends on all of the key's bits:
// its upper bits give the segment, the lowest 8 of it the place there, and the
// 6 before them the shard.
type mixer [2]uint64

func newMixer() mixer { return mixer{rand.Uint64() | 1, rand.Uint64() | 1} }

func (m *mixer) mix(key uint64) uint64 {
	key *= m[0] // upper bits depend on all below
	key ^= key >> 32
	return key * m[1]
}
