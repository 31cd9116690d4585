package prefix

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
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
	sum := int(tb.free.Load())
	for _, s := range tb.live {
		s.mu.Lock()
		if s.list.n > s.limit || int(s.list.made) > s.grant || s.grant > runsFor(s.want) || s.limit < min(s.want, leastLimit) || s.limit > s.want || s.retired {
			t.Fatalf("slot %d holds %d of %d blocks in %d runs, grant %d, retired %t", s.num, s.list.n, s.limit, s.list.made, s.grant, s.retired)
		}
		sum += s.grant
		s.mu.Unlock()
	}
	if sum != tb.budget {
		t.Fatalf("%d runs are granted or free, want %d", sum, tb.budget)
	}
}

// checkIndex fails unless the records say of each slot exactly what its list holds,
// and can be found.
func checkIndex(t *testing.T, tb *Table) {
	t.Helper()
	want := 0
	for num := range tb.slots {
		s := tb.slots[num].Load()
		if s == nil {
			continue
		}
		want += s.list.n
		for i := s.list.first; i != 0; i = s.list.run(i).next {
			r := s.list.run(i)
			rec := tb.records.at(r.record)
			sh := &tb.planes[num/planeSlots].Load().shards[r.shard]
			if sh.find(&tb.records, rec.keys[0]) != r.record || uint32(rec.keys[0]>>32) != r.hash {
				t.Fatalf("record %d, of which slot %d has blocks, is not found", r.record, num)
			}
			for at := r.from; at < r.to; at++ {
				if rec.slots[at]&s.bit == 0 {
					t.Fatalf("slot %d holds block %d of record %d, and the record does not say so", num, at, r.record)
				}
			}
		}
	}
	if got := indexed(t, tb); got != want {
		t.Errorf("the records have %d blocks in slots, the lists %d", got, want)
	}
}

// indexed counts the bits of all records, and fails unless these are what the shards
// find.
func indexed(t *testing.T, tb *Table) (n int) {
	found, used := 0, 0
	for i := range tb.planes {
		if p := tb.planes[i].Load(); p != nil {
			for j := range p.shards {
				found += p.shards[j].table.n
			}
		}
	}
	for page := range tb.records.pages {
		p := tb.records.pages[page].Load()
		if p == nil {
			continue
		}
		for i := range p {
			if tb.records.meta[page].unused>>i&1 == 0 {
				used++
			}
			before := ^uint64(0)
			for _, slots := range p[i].slots {
				if slots&^before != 0 {
					t.Fatalf("slots %x hold a block, of which %x hold the one before", slots, before)
				}
				before = slots
				n += bits.OnesCount64(slots)
			}
		}
	}
	if found != used {
		t.Errorf("%d records are found of %d", found, used)
	}
	return n
}

// checkUse fails unless most of the memory is used.
func checkUse(t *testing.T, tb *Table) {
	t.Helper()
	taken := 0
	for _, s := range tb.live {
		taken += s.list.taken
	}
	if tb.budget < 500 || taken < 3*tb.budget/4 {
		t.Errorf("%d runs are used of %d for which there is memory; want most of some hundreds", taken, tb.budget)
	}
}

// someChains returns chains that begin together and alone.
func someChains() (chains [][]uint64) {
	rnd := rand.New(rand.NewPCG(3, 3))
	chains = append(chains, chain(rnd, 300))
	for range 19 {
		chains = append(chains, partOf(rnd, chains, 100))
	}
	return chains
}

// partOf returns blocks of which the first are one of a few chains'.
func partOf(rnd *rand.Rand, chains [][]uint64, own int) []uint64 {
	c := chains[rnd.IntN(len(chains))]
	return append(slices.Clone(c[:rnd.IntN(len(c))]), chain(rnd, own)...)
}

// TestGrants: whatever is done, the parts of the memory make up the whole.
func TestGrants(t *testing.T) {
	const slots = 130
	for _, size := range []int64{2 << 20, 3 << 20, 16 << 20} {
		rnd := rand.New(rand.NewPCG(7, uint64(size)))
		tb := NewTable(TableConfig{MaxBytes: size, Blocks: 3000, Slots: slots})
		chains := someChains()
		for range 3000 {
			slot := rnd.IntN(slots)
			switch rnd.IntN(8) {
			case 0:
				tb.Forget(slot)
			case 1:
				tb.SetBlocks(slot, 1+rnd.IntN(6000))
			case 2:
				tb.Observe(slot, 10, rnd.IntN(11))
			case 3, 4:
				tb.Add(slot, partOf(rnd, chains, rnd.IntN(40)))
			default:
				tb.Add(slot, chain(rnd, 1+rnd.IntN(400)))
			}
			checkGrants(t, tb)
			if got := tb.Bytes(); got > size {
				t.Fatalf("the table takes %d bytes of %d", got, size)
			}
		}
		checkIndex(t, tb)
		if size < 16<<20 {
			checkUse(t, tb)
		}
	}
}

// TestGrantsConcurrently: they do also when slots take from each other at the
// same time, and the index keeps up.
func TestGrantsConcurrently(t *testing.T) {
	const slots = 70
	for _, size := range []int64{5 << 18, 3 << 19} {
		tb := NewTable(TableConfig{MaxBytes: size, Blocks: 3000, Slots: slots})
		shared := someChains()
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
					case 6, 7, 8:
						tb.Add(slot, partOf(rnd, shared, rnd.IntN(40)))
					default:
						tb.Add(slot, chain(rnd, 1+rnd.IntN(400)))
					}
				}
			})
		}
		all.Wait()
		checkGrants(t, tb)
		checkIndex(t, tb)
		checkUse(t, tb)
	}
}

// TestLeastMemory: what TableConfig says of a table that is too small for its slots.
func TestLeastMemory(t *testing.T) {
	type row struct {
		slots int
		size  int64
		holds bool
	}
	rows := []row{{115, 1 << 20, true}, {125, 1 << 20, false}, {1024, 8 << 20, false}, {1024, 9 << 20, true}}
	for _, slots := range []int{200, 256, 257, 500} {
		groups := int64(slots+planeSlots-1) / planeSlots
		rows = append(rows,
			row{slots, int64(slots)*5_900 + groups*143_000 + 25_000, false},
			row{slots, int64(slots)*6_000 + groups*144_000 + 45_000, true})
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
	tb := NewTable(TableConfig{MaxBytes: 8 << 20})
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
	own := (pageRuns*runBytes+segmentBytes+listBytes+slotBytes)/ownBytes + 1
	if lost := before - held(tb, slots); lost > (own+grantStep)*group+100 {
		t.Errorf("the others lost %d blocks for 100 of a new slot and %d runs for its own memory", lost, own)
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
	tb := NewTable(TableConfig{MaxBytes: 16 << 20, Blocks: 600_000})
	tb.Add(1, chain(rnd, 10))
	tb.Add(0, chain(rnd, 600_000))
	lent := tb.Len(0)
	tb.Add(1, chain(rnd, 600_000))
	if a, b := tb.Len(0), tb.Len(1); lent < 3*a/2 || b < a-2*group || b > a+2*group {
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

// TestRunsOfAChainThatRepeats: a record that a group has twice takes no more runs
// than the slot is granted, also when the second time is longer than the first.
func TestRunsOfAChainThatRepeats(t *testing.T) {
	rnd := rand.New(rand.NewPCG(16, 16))
	tb := NewTable(TableConfig{})
	c := chain(rnd, 3)
	tb.Add(0, c[:2])
	s := tb.slots[0].Load()
	for s.room() > 0 {
		tb.Add(0, chain(rnd, 1))
	}
	tb.Add(0, []uint64{c[0], c[1], c[0], c[1], c[2]})
	checkGrants(t, tb)
	checkIndex(t, tb)
}
