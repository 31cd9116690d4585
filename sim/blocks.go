package sim

// blocks is the KV cache of one engine: reference-counted blocks, a free list
// in eviction order, and an index of block hashes. Block 0 is the reserved null
// block, which is never used; here it is the sentinel of the free list.
//
// A block that nobody holds keeps its hash, and can be hit, until it is taken
// for something else.
type blocks struct {
	blk   []block
	free  int     // blocks nobody holds
	index []int32 // open addressing by hash, 0 = empty; equal hashes keep their order of insertion
	mask  uint64
	evict func(hash uint64) // told of every hash that is dropped; may be nil
}

type block struct {
	hash       uint64
	prev, next int32 // free list
	refs       int32
	hashed     bool
}

func newBlocks(usable int, evict func(uint64)) *blocks {
	size := 4
	for size < 2*(usable+1) {
		size *= 2
	}
	b := &blocks{
		blk:   make([]block, usable+1),
		free:  usable,
		index: make([]int32, size),
		mask:  uint64(size - 1),
		evict: evict,
	}
	for i := range b.blk {
		b.blk[i].prev = int32(i - 1)
		b.blk[i].next = int32(i + 1)
	}
	b.blk[0].prev = int32(usable)
	b.blk[usable].next = 0
	return b
}

func (b *blocks) usable() int { return len(b.blk) - 1 }

// find returns a block that holds the content named by hash, or 0.
func (b *blocks) find(hash uint64) int32 {
	for i := mix64(hash) & b.mask; ; i = (i + 1) & b.mask {
		id := b.index[i]
		if id == 0 || b.blk[id].hash == hash {
			return id
		}
	}
}

// register gives a held block its hash.
func (b *blocks) register(id int32, hash uint64) {
	b.blk[id].hash = hash
	b.blk[id].hashed = true
	i := mix64(hash) & b.mask
	for b.index[i] != 0 {
		i = (i + 1) & b.mask
	}
	b.index[i] = id
}

// forget drops the hash of a block.
func (b *blocks) forget(id int32) {
	hash := b.blk[id].hash
	b.blk[id].hashed = false
	i := mix64(hash) & b.mask
	for b.index[i] != id {
		i = (i + 1) & b.mask
	}
	// Close the gap: move back every later entry of the run that may stand here.
	for j := (i + 1) & b.mask; b.index[j] != 0; j = (j + 1) & b.mask {
		home := mix64(b.blk[b.index[j]].hash) & b.mask
		if (j-home)&b.mask >= (j-i)&b.mask {
			b.index[i] = b.index[j]
			i = j
		}
	}
	b.index[i] = 0
	if b.evict != nil {
		b.evict(hash)
	}
}

// hold takes one more reference to a block, off the free list if it is there.
func (b *blocks) hold(id int32) {
	if b.blk[id].refs == 0 {
		b.unlink(id)
	}
	b.blk[id].refs++
}

// take returns the block at the front of the free list, its hash dropped. The
// caller has seen that one is free.
func (b *blocks) take() int32 {
	id := b.blk[0].next
	if b.blk[id].hashed {
		b.forget(id)
	}
	b.unlink(id)
	b.blk[id].refs = 1
	return id
}

// release gives up one reference to each of ids, the last one first. Blocks
// nobody holds any more join the end of the free list; those without a hash
// join its front, unless legacy.
func (b *blocks) release(ids []int32, legacy bool) {
	for i := len(ids) - 1; i >= 0; i-- {
		id := ids[i]
		b.blk[id].refs--
		if b.blk[id].refs > 0 {
			continue
		}
		before := int32(0)
		if !legacy && !b.blk[id].hashed {
			before = b.blk[0].next
		}
		b.link(id, before)
	}
}

func (b *blocks) unlink(id int32) {
	n := &b.blk[id]
	b.blk[n.prev].next = n.next
	b.blk[n.next].prev = n.prev
	b.free--
}

// link puts a block into the free list in front of another; 0 means at the end.
func (b *blocks) link(id, before int32) {
	prev := b.blk[before].prev
	b.blk[id].prev, b.blk[id].next = prev, before
	b.blk[prev].next = id
	b.blk[before].prev = id
	b.free++
}

// clear drops every hash; it reports false, and does nothing, while a block is held.
func (b *blocks) clear() bool {
	if b.free != b.usable() {
		return false
	}
	clear(b.index)
	for i := range b.blk {
		b.blk[i].hashed = false
	}
	return true
}

// mix64 is the finalizer of splitmix64, a bijection on 64 bits.
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
