package prefix

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Map knows which leading blocks of a prompt each replica holds. Blocks are
// hashes made by AppendBlocks, always from the start of the chain.
// Implementations are safe for concurrent use, do not block and keep none of
// their arguments.
type Map interface {
	// Overlap sets n[slot], for every slot below len(n), to the number of
	// leading blocks held by the replica in that slot. Here and in Add, blocks
	// is a chain from its start: a hash stands for all before it, and so has one
	// place in every chain that it is in.
	Overlap(n []int, blocks []uint64)
	// Add says that the replica in slot holds the blocks, as of now.
	Add(slot int, blocks []uint64)
	// Forget says that the replica in slot holds nothing: it restarted or
	// left.
	Forget(slot int)
}

// AppendBlocks appends to dst the chained hash of every full block of size
// tokens, starting from seed. Tokens after the last full block are ignored,
// as the engine does not cache them. A size below 1 yields nothing.
func AppendBlocks(dst []uint64, seed uint64, tokens []uint32, size int) []uint64 {
	if size < 1 {
		return dst
	}
	parent := seed
	for len(tokens) >= size {
		parent = hashBlock(parent, tokens[:size])
		dst = append(dst, parent)
		tokens = tokens[size:]
	}
	return dst
}

// stride is how many tokens are hashed at once: the usual block in one go.
const stride = 64

func hashBlock(parent uint64, tokens []uint32) uint64 {
	var buf [8 + 4*stride]byte
	binary.LittleEndian.PutUint64(buf[:], parent)
	if len(tokens) <= stride {
		return xxhash.Sum64(buf[:8+put(buf[8:], tokens)])
	}
	var d xxhash.Digest
	d.Reset()
	n := 8
	for len(tokens) > 0 {
		m := min(len(tokens), stride)
		n += put(buf[n:], tokens[:m])
		_, _ = d.Write(buf[:n]) // never fails
		tokens, n = tokens[m:], 0
	}
	return d.Sum64()
}

func put(b []byte, tokens []uint32) int {
	b = b[:4*len(tokens)]
	for i, t := range tokens {
		binary.LittleEndian.PutUint32(b[4*i:], t)
	}
	return len(b)
}

// Seed returns the root of the chain for requests to a LoRA adapter and with
// a cache salt, either of which may be empty. Different pairs have disjoint
// chains.
func Seed(adapter, salt string) uint64 {
	var d xxhash.Digest
	d.Reset()
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(adapter)))
	_, _ = d.Write(size[:])
	_, _ = d.WriteString(adapter)
	_, _ = d.WriteString(salt)
	return d.Sum64()
}
