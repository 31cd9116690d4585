package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveBlocks is the block pool written for clarity: the free list is a slice
// in eviction order, and lookups scan.
type naiveBlocks struct {
	free   []int32
	refs   map[int32]int
	hash   map[int32]uint64
	filled []int32 // hashed blocks in order of registration
	gone   []uint64
}

func (m *naiveBlocks) find(h uint64) (ids []int32) {
	for _, id := range m.filled {
		if m.hash[id] == h {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *naiveBlocks) take() int32 {
	id := m.free[0]
	m.free = m.free[1:]
	if h, ok := m.hash[id]; ok {
		m.gone = append(m.gone, h)
		delete(m.hash, id)
		m.filled = slices.DeleteFunc(m.filled, func(x int32) bool { return x == id })
	}
	m.refs[id] = 1
	return id
}

func (m *naiveBlocks) hold(id int32) {
	if m.refs[id] == 0 {
		m.free = slices.DeleteFunc(m.free, func(x int32) bool { return x == id })
	}
	m.refs[id]++
}

func (m *naiveBlocks) release(ids []int32, legacy bool) {
	for _, id := range slices.Backward(ids) {
		m.refs[id]--
		if m.refs[id] > 0 {
			continue
		}
		if _, hashed := m.hash[id]; hashed || legacy {
			m.free = append(m.free, id)
		} else {
			m.free = slices.Insert(m.free, 0, id)
		}
	}
}

func (b *blocks) freeList() (ids []int32) {
	for id := b.blk[0].next; id != 0; id = b.blk[id].next {
		ids = append(ids, id)
	}
	return ids
}

// Random operations leave the pool and the naive one in the same state. Few
// distinct hashes make duplicates and long probe runs common.
func TestBlocksAgainstModel(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		legacy := seed%2 == 0
		n := 1 + rnd.IntN(24)
		var gone []uint64
		b := newBlocks(n, func(h uint64) { gone = append(gone, h) })
		m := &naiveBlocks{refs: map[int32]int{}, hash: map[int32]uint64{}, free: b.freeList()}
		var holders [][]int32
		for step := range 2000 {
			switch rnd.IntN(4) {
			case 0, 1: // a sequence takes blocks, some of which get filled
				var ids []int32
				for range rnd.IntN(4) {
					if b.free == 0 {
						break
					}
					got, want := b.take(), m.take()
					if got != want {
						t.Fatalf("seed %d, step %d: take = %d, want %d", seed, step, got, want)
					}
					if h := uint64(rnd.IntN(12)); h > 2 {
						b.register(got, h)
						m.hash[got] = h
						m.filled = append(m.filled, got)
					}
					ids = append(ids, got)
				}
				holders = append(holders, ids)
			case 2: // a hit
				h := uint64(rnd.IntN(12))
				got, want := b.find(h), m.find(h)
				if (got == 0) != (len(want) == 0) || got != 0 && !slices.Contains(want, got) {
					t.Fatalf("seed %d, step %d: find(%d) = %d, want one of %v", seed, step, h, got, want)
				}
				if got != 0 {
					b.hold(got)
					m.hold(got)
					holders = append(holders, []int32{got})
				}
			case 3:
				if len(holders) == 0 {
					continue
				}
				i := rnd.IntN(len(holders))
				b.release(holders[i], legacy)
				m.release(holders[i], legacy)
				holders = slices.Delete(holders, i, i+1)
			}
			if got := b.freeList(); !slices.Equal(got, m.free) || b.free != len(m.free) {
				t.Fatalf("seed %d, step %d: free list %v (%d), want %v", seed, step, got, b.free, m.free)
			}
			if !slices.Equal(gone, m.gone) {
				t.Fatalf("seed %d, step %d: evicted %v, want %v", seed, step, gone, m.gone)
			}
		}
		if len(holders) > 0 && b.clear() {
			if b.free != b.usable() {
				t.Fatalf("seed %d: clear with blocks held", seed)
			}
		}
		for _, ids := range holders {
			b.release(ids, legacy)
		}
		if !b.clear() || b.free != n {
			t.Fatalf("seed %d: %d blocks free at the end, want %d", seed, b.free, n)
		}
		for h := range uint64(12) {
			if id := b.find(h); id != 0 {
				t.Fatalf("seed %d: find(%d) = %d after clear", seed, h, id)
			}
		}
	}
}
