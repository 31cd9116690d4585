package prefix

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"testing"
)

// chain returns blocks that no other call returns.
func chain(rnd *rand.Rand, n int) []uint64 {
	blocks := make([]uint64, n)
	for i := range blocks {
		blocks[i] = rnd.Uint64()
	}
	return blocks
}

// checkGrants fails unless all memory is granted or free, and each slot keeps
// to its part.
func checkGrants(t *testing.T, tb *Table) {
	t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	sum := tb.free.Load()
	for _, s := range tb.live {
		s.mu.Lock()
		if s.list.n > s.bound() || int(s.list.made) > s.grant || s.grant > s.want || s.limit < min(s.want, leastLimit) || s.limit > s.want || s.retired {
			t.Fatalf("slot %d holds %d of %d blocks in %d nodes, grant %d, retired %t", s.num, s.list.n, s.bound(), s.list.made, s.grant, s.retired)
		}
		sum += int64(s.grant)
		s.mu.Unlock()
	}
	if budget := int64(tb.budgetLocked()); sum != budget {
		t.Fatalf("%d blocks are granted or free, want %d", sum, budget)
	}
}

// checkIndex fails unless the index says of each slot exactly what its list holds.
func checkIndex(t *testing.T, tb *Table) {
	t.Helper()
	want := 0
	for num := range tb.slots {
		s := tb.slots[num].Load()
		if s == nil {
			continue
		}
		want += s.list.n
		for i := s.list.first; i != 0; i = s.list.node(i).next {
			nd := s.list.node(i)
			p := tb.planes[num/planeSlots].Load()
			if p.shards[nd.shard].slots(nd.key)>>(num%planeSlots)&1 == 0 {
				t.Fatalf("slot %d holds a block that the index does not know of", num)
			}
		}
	}
	if got := indexed(tb); got != want {
		t.Errorf("the index knows of %d blocks in slots, the lists of %d", got, want)
	}
}

// indexed counts the bits of all cells.
func indexed(tb *Table) (n int) {
	count := func(p *cells[cell]) {
		for _, c := range p {
			n += bits.OnesCount64(c[1])
		}
	}
	for i := range tb.planes {
		p := tb.planes[i].Load()
		if p == nil {
			continue
		}
		for j := range p.shards {
			sh := &p.shards[j]
			seen := make(map[*cells[cell]]bool)
			for _, f := range sh.first {
				if !seen[f] {
					count(f)
				}
				seen[f] = true
			}
			for l := sh.spills; l != nil; l = l.next {
				count(l.cells)
			}
		}
	}
	return n
}

// TestGrants: whatever is done, the parts of the memory make up the whole.
func TestGrants(t *testing.T) {
	const slots = 130
	for _, size := range []int64{3 << 20, 4 << 20, 16 << 20} {
		rnd := rand.New(rand.NewPCG(7, uint64(size)))
		tb := NewTable(TableConfig{MaxBytes: size, Blocks: 3000, Slots: slots})
		for range 3000 {
			slot := rnd.IntN(slots)
			switch rnd.IntN(8) {
			case 0:
				tb.Forget(slot)
			case 1:
				tb.SetBlocks(slot, 1+rnd.IntN(6000))
			case 2:
				tb.Observe(slot, 10, rnd.IntN(11))
			default:
				c := chain(rnd, 1+rnd.IntN(400))
				tb.Add(slot, c)
			}
			checkGrants(t, tb)
			if got := tb.Bytes(); got > size {
				t.Fatalf("the table takes %d bytes of %d", got, size)
			}
		}
		checkIndex(t, tb)
		if got, room := held(tb, slots), tb.budgetLocked(); room < 5000 || got < 3*room/4 {
			t.Errorf("%d blocks are held of %d for which there is memory; want most of some thousands", got, room)
		}
	}
}

// TestGrantsConcurrently: they do also when slots take from each other at the
// same time, and the index keeps up.
func TestGrantsConcurrently(t *testing.T) {
	const slots = 70
	for _, size := range []int64{3 << 20, 4 << 20} {
		tb := NewTable(TableConfig{MaxBytes: size, Blocks: 3000, Slots: slots})
		shared := make([][]uint64, 20)
		for i := range shared {
			shared[i] = chain(rand.New(rand.NewPCG(3, uint64(i))), 300)
		}
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				rnd := rand.New(rand.NewPCG(8, uint64(g)))
				n := make([]int, slots)
				for range 1500 {
					switch slot := rnd.IntN(slots); rnd.IntN(12) {
					case 0:
						tb.Forget(slot)
					case 1:
						tb.SetBlocks(slot, 1+rnd.IntN(6000))
					case 2, 3:
						tb.Observe(slot, 10, rnd.IntN(11))
					case 4:
						tb.Overlap(n, shared[rnd.IntN(len(shared))])
					case 5:
						if got := tb.Bytes(); got > size {
							t.Errorf("the table takes %d bytes of %d", got, size)
						}
					case 6, 7:
						tb.Add(slot, shared[rnd.IntN(len(shared))][:1+rnd.IntN(300)])
					default:
						tb.Add(slot, chain(rnd, 1+rnd.IntN(400)))
					}
				}
			})
		}
		all.Wait()
		checkGrants(t, tb)
		checkIndex(t, tb)
		if got, room := held(tb, slots), tb.budgetLocked(); room < 5000 || got < 3*room/4 {
			t.Errorf("%d blocks are held of %d for which there is memory; want most of some thousands", got, room)
		}
	}
}

// TestLeastMemory: what TableConfig says of a table that is too small for its slots.
func TestLeastMemory(t *testing.T) {
	type row struct {
		slots int
		size  int64
		holds bool
	}
	rows := []row{{52, 1 << 20, true}, {53, 1 << 20, false}, {1024, 18 << 20, false}, {1024, 19 << 20, true}}
	for _, slots := range []int{64, 65, 128, 500} {
		groups := int64(slots+planeSlots-1) / planeSlots
		rows = append(rows,
			row{slots, int64(slots)*14_500 + groups*274_000, false},
			row{slots, int64(slots)*15_000 + groups*275_000, true})
	}
	for _, tt := range rows {
		rnd := rand.New(rand.NewPCG(15, 15))
		tb := NewTable(TableConfig{MaxBytes: tt.size})
		for slot := range tt.slots {
			tb.Add(slot, chain(rnd, 50))
		}
		if got := held(tb, tt.slots); got > 0 != tt.holds {
			t.Errorf("%d bytes: %d slots hold %d blocks, want any: %t", tt.size, tt.slots, got, tt.holds)
		}
		if got := tb.Bytes(); got > tt.size {
			t.Errorf("the table takes %d bytes of %d", got, tt.size)
		}
		checkGrants(t, tb)
	}
}

// full returns a table that slots, which want more than there is, have filled.
func full(slots int) (*Table, *rand.Rand) {
	rnd := rand.New(rand.NewPCG(9, 9))
	tb := NewTable(TableConfig{MaxBytes: 16 << 20})
	for range 2 {
		for slot := range slots {
			for range 30_000 / 500 {
				tb.Add(slot, chain(rnd, 500))
			}
		}
	}
	return tb, rnd
}

func held(tb *Table, slots int) (n int) {
	for slot := range slots {
		n += tb.Len(slot)
	}
	return n
}

// TestSlotThatJoins: it takes from the others what it needs, not what its share
// is, and has its share in the end.
func TestSlotThatJoins(t *testing.T) {
	const slots = 20
	tb, rnd := full(slots)
	before := held(tb, slots)
	tb.Add(slots, chain(rnd, 100))
	own := (pageNodes*nodeBytes+segmentCells*entryBytes+listBytes+slotBytes)/pairBytes + 1
	if lost := before - held(tb, slots); lost > own+100 {
		t.Errorf("the others lost %d blocks for 100 of a new slot and %d for its own memory", lost, own)
	}
	for range 100 {
		tb.Add(slots, chain(rnd, 500))
	}
	if got, want := tb.Len(slots), held(tb, slots)/slots; got < want-slots || got > want+slots {
		t.Errorf("the new slot holds %d blocks, the others %d", got, want)
	}
	checkGrants(t, tb)
}

// TestSlotsThatLeave: their part of the memory is for those that stay.
func TestSlotsThatLeave(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 10))
	tb := NewTable(TableConfig{MaxBytes: 16 << 20, Blocks: 20_000})
	for slot := range 500 {
		tb.Add(slot, chain(rnd, 200))
	}
	for slot := 2; slot < 500; slot++ {
		tb.Forget(slot)
	}
	for slot := range 2 {
		tb.Add(slot, chain(rnd, 20_000))
		if got := tb.Len(slot); got != 20_000 {
			t.Errorf("slot %d holds %d blocks, want all that it wants", slot, got)
		}
	}
	tb.Forget(0)
	c := chain(rnd, 30)
	tb.Add(400, c) // it is used again
	n := make([]int, 500)
	if tb.Overlap(n, c); n[400] != 30 || tb.Len(400) != 30 {
		t.Errorf("a slot that is used again holds %d blocks, and %d are found; want 30", tb.Len(400), n[400])
	}
	checkGrants(t, tb)
}

// TestIdleSlotsLendTheirShare: what others do not use is held until they do.
func TestIdleSlotsLendTheirShare(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 11))
	tb := NewTable(TableConfig{MaxBytes: 16 << 20, Blocks: 100_000})
	tb.Add(1, chain(rnd, 10))
	tb.Add(0, chain(rnd, 100_000))
	lent := tb.Len(0)
	tb.Add(1, chain(rnd, 100_000))
	if a, b := tb.Len(0), tb.Len(1); lent < 3*a/2 || b < a-2 || b > a+2 {
		t.Errorf("slot 0 held %d blocks, then %d with %d in slot 1; want nearly all, then half each", lent, a, b)
	}
}

// TestBoundOfASlotWithoutMemory: what the engine finds there says nothing.
func TestBoundOfASlotWithoutMemory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(12, 12))
	tb := NewTable(TableConfig{MaxBytes: 1 << 20})
	tb.Add(0, chain(rnd, 40))
	tb.Forget(0)
	tb.Observe(0, 10, 6)
	if tb.Add(0, chain(rnd, 40)); tb.Len(0) != 40 {
		t.Errorf("a slot that is used again holds %d blocks, want 40", tb.Len(0))
	}
}

// TestBoundWithoutEnd: a replica that says it has room for everything.
func TestBoundWithoutEnd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 13))
	tb := NewTable(TableConfig{Blocks: math.MaxInt})
	for slot := range 2 {
		tb.SetBlocks(1, math.MaxInt)
		for range 3 {
			tb.Add(slot, chain(rnd, 40))
			tb.Observe(slot, 10, 10)
		}
		if got := tb.Len(slot); got != 120 {
			t.Errorf("slot %d holds %d blocks, want 120", slot, got)
		}
	}
}

// TestBoundThatShrankIsForOthers: what a slot may no longer hold others may.
func TestBoundThatShrankIsForOthers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(14, 14))
	tb := NewTable(TableConfig{MaxBytes: 16 << 20, Blocks: 200_000})
	tb.Add(0, chain(rnd, 200_000))
	all := tb.Len(0)
	for range 100 {
		tb.Observe(0, 100, 60)
	}
	tb.Add(1, chain(rnd, 200_000))
	if a, b := tb.Len(0), tb.Len(1); a != leastLimit || a+b < all-2*grantStep {
		t.Errorf("slots hold %d and %d blocks, want %d and most of %d", a, b, leastLimit, all)
	}
	checkGrants(t, tb)
}
