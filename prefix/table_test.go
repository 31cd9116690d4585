package prefix_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/prefix/prefixtest"
)

func TestTableIsAMap(t *testing.T) {
	prefixtest.Run(t, func(*testing.T) prefix.Map { return prefix.NewTable(prefix.TableConfig{}) })
}

// model is the table's rule in its plainest form: per slot a list with the
// most recently used block in front, cut at the limit.
type model struct {
	limits map[int]int
	slots  map[int][]uint64
}

func (m *model) limit(slot, n int) {
	m.limits[slot] = n
	m.slots[slot] = m.slots[slot][:min(len(m.slots[slot]), n)]
}

func (m *model) add(slot int, blocks []uint64) {
	blocks = blocks[:min(len(blocks), m.limits[slot])]
	list := m.slots[slot]
	for _, b := range slices.Backward(blocks) {
		if i := slices.Index(list, b); i >= 0 {
			list = slices.Delete(list, i, i+1)
		}
		list = slices.Insert(list, 0, b)
	}
	m.slots[slot] = list[:min(len(list), m.limits[slot])]
}

func (m *model) overlap(n int, blocks []uint64) []int {
	out := make([]int, n)
	for slot := range out {
		for out[slot] < len(blocks) && slices.Contains(m.slots[slot], blocks[out[slot]]) {
			out[slot]++
		}
	}
	return out
}

// branch returns a chain of 40 blocks that has the first 5 in common with those
// whose way is even or odd as well, the next 5 with those of which a quarter is, and
// so on.
func branch(way int) []uint64 {
	tokens := make([]uint32, 40)
	for i := range tokens {
		tokens[i] = uint32(way >> (i / 5) & 1)
	}
	return prefix.AppendBlocks(nil, 0, tokens, 1)
}

// play runs a program, two bytes a step, against a table and the model.
func play(t *testing.T, program []byte) {
	const limit, slots = 50, 70
	tb := prefix.NewTable(prefix.TableConfig{Blocks: limit, Slots: slots})
	m := &model{limits: map[int]int{}, slots: map[int][]uint64{}}
	used := []int{0, 1, 63, 64, 69}
	for _, s := range used {
		m.limits[s] = limit
	}
	for len(program) >= 2 {
		op, arg := program[0], int(program[1])
		program = program[2:]
		slot := used[arg%len(used)]
		chain := branch(arg / len(used))
		chain = chain[:int(op>>2)%len(chain)+1]
		switch op & 3 {
		case 0, 1:
			tb.Add(slot, chain)
			m.add(slot, chain)
		case 2:
			if arg%16 == 0 {
				tb.Forget(slot)
				delete(m.slots, slot)
			}
		case 3:
			if n := 1 + int(op>>2); arg%4 == 0 {
				tb.SetBlocks(slot, n)
				m.limit(slot, n)
			}
		}
		n := make([]int, slots)
		tb.Overlap(n, chain)
		if want := m.overlap(slots, chain); !slices.Equal(n, want) {
			t.Fatalf("Overlap = %v, want %v", n, want)
		}
		for _, s := range used {
			if got, want := tb.Len(s), len(m.slots[s]); got != want {
				t.Fatalf("slot %d holds %d blocks, want %d", s, got, want)
			}
		}
	}
}

func TestTableAgainstModel(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		program := make([]byte, 1000)
		for i := range program {
			program[i] = byte(rnd.Uint32())
		}
		play(t, program)
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 0, 4, 1, 255, 2, 2, 3})
	f.Fuzz(play)
}

// TestSlotWithoutMemory: where there is no memory for a slot nothing is kept.
func TestSlotWithoutMemory(t *testing.T) {
	tb := prefix.NewTable(prefix.TableConfig{MaxBytes: 1, Slots: 256}) // counts as 1 MiB
	for slot := range 256 {
		tb.Add(slot, prefixtest.Chain(uint64(slot), 40))
		tb.Observe(slot, 40, 1)
	}
	n := make([]int, 256)
	if tb.Overlap(n, prefixtest.Chain(255, 40)); n[255] != tb.Len(255) {
		t.Errorf("%d blocks of %d are found", n[255], tb.Len(255))
	}
}

// TestChainThatRepeats: blocks that come twice in a chain, as no chain of hashes
// has them, do not break the bound.
func TestChainThatRepeats(t *testing.T) {
	tb := prefix.NewTable(prefix.TableConfig{Blocks: 20})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		chain := make([]uint64, 1+rng.IntN(40))
		for i := range chain {
			chain[i] = 1 + rng.Uint64N(30)
		}
		tb.Add(0, chain)
		if tb.Len(0) > 20 {
			t.Fatalf("after %v the slot holds %d blocks", chain, tb.Len(0))
		}
	}
	tb.Forget(0)
	n := make([]int, 1)
	for key := range uint64(30) {
		if tb.Overlap(n, []uint64{1 + key}); n[0] != 0 {
			t.Errorf("block %d is still found", 1+key)
		}
	}
}

func TestTailIsEvictedFirst(t *testing.T) {
	tb := prefix.NewTable(prefix.TableConfig{Blocks: 100})
	old, fresh := prefixtest.Chain(1, 60), prefixtest.Chain(2, 60)
	tb.Add(0, old)
	tb.Add(0, fresh)
	n := make([]int, 1)
	if tb.Overlap(n, old); n[0] != 40 {
		t.Errorf("of the older chain %d leading blocks are left, want 40", n[0])
	}
	if tb.Overlap(n, fresh); n[0] != 60 {
		t.Errorf("of the newer chain %d leading blocks are left, want 60", n[0])
	}
	long := prefixtest.Chain(3, 150)
	tb.Add(0, long)
	if tb.Overlap(n, long); n[0] != 100 {
		t.Errorf("of a chain longer than the cache %d blocks are held, want 100", n[0])
	}
}

func TestSetBlocks(t *testing.T) {
	tb := prefix.NewTable(prefix.TableConfig{Blocks: 100})
	c := prefixtest.Chain(1, 100)
	tb.Add(0, c)
	tb.SetBlocks(0, 30)
	n := make([]int, 1)
	if tb.Overlap(n, c); n[0] != 30 {
		t.Errorf("after SetBlocks(30): %d blocks, want 30", n[0])
	}
	tb.SetBlocks(0, 200)
	tb.Add(0, prefixtest.Chain(1, 200))
	if got := tb.Len(0); got != 200 {
		t.Errorf("after SetBlocks(200): %d blocks, want 200", got)
	}
	tb.SetBlocks(-1, 5)
	tb.SetBlocks(5, -1)
}

// TestMemoryBound adds far more distinct blocks than fit, to more and more
// slots, and asks for the size after every step.
func TestMemoryBound(t *testing.T) {
	const maxBytes = 4 << 20
	tb := prefix.NewTable(prefix.TableConfig{MaxBytes: maxBytes})
	most := int64(0)
	for round := range 40 {
		for slot := range 64 {
			if slot > 2*round {
				break
			}
			c := prefixtest.Chain(uint64(round*64+slot), 2000)
			tb.Add(slot, c)
			most = max(most, tb.Bytes())
			n := make([]int, 64)
			if tb.Overlap(n, c); n[slot] != min(2000, tb.Len(slot)) {
				t.Fatalf("slot %d has %d of the chain just added and %d blocks in all", slot, n[slot], tb.Len(slot))
			}
		}
	}
	if most > maxBytes {
		t.Errorf("the table grew to %d bytes, want at most %d", most, maxBytes)
	}
	if most < maxBytes/4 {
		t.Errorf("the table used at most %d of its %d bytes: the bound is far too careful", most, maxBytes)
	}
	held := 0
	for slot := range 64 {
		held += tb.Len(slot)
		if got, want := tb.Len(slot), tb.Len(0); got < want-64*16 || got > want+64*16 { // what 64 shares leave over
			t.Errorf("slot %d holds %d blocks, slot 0 %d: want equal shares", slot, got, want)
		}
	}
	t.Logf("%d blocks in %d bytes, %d each", held, tb.Bytes(), tb.Bytes()/int64(held))
	for slot := range 64 {
		tb.Forget(slot)
	}
	if got := tb.Bytes(); got > maxBytes/10 {
		t.Errorf("an emptied table takes %d bytes", got)
	}
}

// TestMemoryOfWhatWasEvicted: what a slot has forgotten after contradictions is
// no memory that it keeps while others get its share.
func TestMemoryOfWhatWasEvicted(t *testing.T) {
	const maxBytes = 1 << 20
	tb := prefix.NewTable(prefix.TableConfig{MaxBytes: maxBytes})
	for slot := range 60 {
		tb.SetBlocks(slot, 1<<20)
		tb.Add(slot, prefixtest.Chain(uint64(slot), 20_000))
		for range 3 {
			tb.Observe(slot, 100, 0)
		}
		if tb.Len(slot) != 0 {
			t.Fatalf("after three contradictions %d blocks are left", tb.Len(slot))
		}
		tb.SetBlocks(slot, 1)
		if got := tb.Bytes(); got > maxBytes {
			t.Fatalf("with %d slots the table takes %d bytes, want at most %d", slot+1, got, maxBytes)
		}
	}
}

func TestMemoryIsSharedByWant(t *testing.T) {
	tb := prefix.NewTable(prefix.TableConfig{MaxBytes: 1 << 20})
	for slot := range 3 {
		tb.SetBlocks(slot, []int{100, 1 << 20, 1 << 20}[slot])
	}
	for slot := range 3 {
		tb.Add(slot, prefixtest.Chain(uint64(slot), 30_000))
	}
	const left = (100 + 16) * 16 // what slot 0 has a right to, were its blocks all apart
	if a, b, c := tb.Len(0), tb.Len(1), tb.Len(2); a != 100 || b-c < -left || b-c > left || c < 10_000 {
		t.Errorf("slots hold %d, %d, %d blocks; want 100 and the rest in equal parts", a, b, c)
	}
}

func TestObserve(t *testing.T) {
	newTable := func() (*prefix.Table, []uint64) {
		tb := prefix.NewTable(prefix.TableConfig{Blocks: 1000})
		c := prefixtest.Chain(1, 100)
		tb.Add(0, c)
		tb.Add(1, c)
		return tb, c
	}
	held := func(tb *prefix.Table, c []uint64) int {
		n := make([]int, 2)
		tb.Overlap(n, c)
		if n[1] != 100 {
			t.Errorf("another slot lost blocks: %d of 100 left", n[1])
		}
		return n[0]
	}
	t.Run("third contradiction withdraws the credit", func(t *testing.T) {
		tb, c := newTable()
		for i := range 3 {
			if got := held(tb, c); got != 100 {
				t.Errorf("after %d contradictions: %d blocks, want 100", i, got)
			}
			tb.Observe(0, 100, 0)
		}
		if got := held(tb, c); got != 0 {
			t.Errorf("after three contradictions: %d blocks, want 0", got)
		}
	})
	t.Run("what was added meanwhile stays", func(t *testing.T) {
		tb, c := newTable()
		fresh := prefixtest.Chain(2, 50)
		tb.Observe(0, 100, 0)
		tb.Add(0, fresh)
		tb.Observe(0, 100, 10)
		tb.Observe(0, 100, 49)
		if got := held(tb, c); got != 0 {
			t.Errorf("%d blocks of the old chain are left, want 0", got)
		}
		n := make([]int, 1)
		if tb.Overlap(n, fresh); n[0] != 50 {
			t.Errorf("%d blocks of the chain added since the first contradiction are left, want 50", n[0])
		}
	})
	t.Run("agreement starts the count anew", func(t *testing.T) {
		tb, c := newTable()
		for range 10 {
			tb.Observe(0, 100, 0)
			tb.Observe(0, 100, 0)
			tb.Observe(0, 100, 99)
			tb.Observe(0, 0, 0) // nothing was predicted: nothing is learned
		}
		if got := held(tb, c); got != 100 {
			t.Errorf("%d blocks are left, want 100", got)
		}
	})
	t.Run("engines that do not say what was cached", func(t *testing.T) {
		tb, c := newTable()
		for range 10 {
			tb.Observe(0, 100, -1)
		}
		if got := held(tb, c); got != 100 {
			t.Errorf("%d blocks are left, want 100", got)
		}
		tb.Observe(0, 100, 99)
		for range 3 { // it has said it before, and now says nothing of none
			tb.Observe(0, 100, -1)
		}
		if got := held(tb, c); got != 0 {
			t.Errorf("%d blocks are left after three answers without any, want 0", got)
		}
		tb.Add(0, c)
		tb.Forget(0) // another engine now
		tb.Add(0, c)
		for range 10 {
			tb.Observe(0, 100, -1)
		}
		if got := held(tb, c); got != 100 {
			t.Errorf("%d blocks are left of an engine that has not said it yet, want 100", got)
		}
	})
	t.Run("shortfalls shrink the bound and agreement restores it", func(t *testing.T) {
		tb, _ := newTable()
		full := prefixtest.Chain(5, 1000)
		tb.Add(0, full)
		for range 200 {
			tb.Observe(0, 100, 60)
		}
		if got := tb.Len(0); got != 64 {
			t.Errorf("after many shortfalls: %d blocks, want the least, 64", got)
		}
		for range 2000 {
			tb.Observe(0, 100, 100)
		}
		tb.Add(0, full)
		if got := tb.Len(0); got != 1000 {
			t.Errorf("after many answers that agree: %d blocks, want 1000", got)
		}
	})
	tb := prefix.NewTable(prefix.TableConfig{})
	tb.Observe(-1, 5, 0)
	tb.Observe(3, 5, 0)
}

func TestConcurrentSlotsAndLimits(t *testing.T) {
	tb := prefix.NewTable(prefix.TableConfig{MaxBytes: 1 << 20})
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 5))
			n := make([]int, 128)
			for i := range 200 {
				slot := rnd.IntN(128)
				c := prefixtest.Chain(rnd.Uint64N(10), 1+rnd.IntN(300))
				tb.Add(slot, c)
				tb.Overlap(n, c)
				switch i % 10 {
				case 0:
					tb.SetBlocks(slot, 1+rnd.IntN(500))
				case 1:
					tb.Forget(slot)
				case 2:
					tb.Observe(slot, 10, rnd.IntN(11))
				case 3:
					if b := tb.Bytes(); b > 1<<20 {
						t.Errorf("Bytes = %d, want at most %d", b, 1<<20)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestOverlapDoesNotAllocate(t *testing.T) {
	tb := prefix.NewTable(prefix.TableConfig{})
	tokens := make([]uint32, 1800)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	blocks := prefix.AppendBlocks(nil, 1, tokens, 16)
	for slot := range 64 {
		tb.Add(slot, blocks[:1+slot])
	}
	n := make([]int, 64)
	allocs := testing.AllocsPerRun(200, func() {
		blocks = prefix.AppendBlocks(blocks[:0], 1, tokens, 16)
		tb.Overlap(n, blocks)
		tb.Add(3, blocks[:4])
	})
	if allocs != 0 {
		t.Errorf("%v allocations per request, want 0", allocs)
	}
}

// TestAddDoesNotAllocate where as much is forgotten as is added.
func TestAddDoesNotAllocate(t *testing.T) {
	addOne := fill(prefix.NewTable(prefix.TableConfig{}), 2000)
	if allocs := testing.AllocsPerRun(200, addOne); allocs != 0 {
		t.Errorf("%v allocations for each prompt, want 0", allocs)
	}
}

func ExampleTable() {
	t := prefix.NewTable(prefix.TableConfig{})
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	blocks := prefix.AppendBlocks(nil, prefix.Seed("", ""), tokens, 4)
	t.Add(1, blocks) // the replica in slot 1 served this prompt

	tokens[6] = 70 // another that differs in its second block
	n := make([]int, 3)
	t.Overlap(n, prefix.AppendBlocks(nil, prefix.Seed("", ""), tokens, 4))
	fmt.Println(n)
	// Output: [0 1 0]
}

// TestObserveMoreThanThereIs: an engine that says it found more than any prompt has
// contradicts nothing.
func TestObserveMoreThanThereIs(t *testing.T) {
	tb := prefix.NewTable(prefix.TableConfig{})
	tb.Add(0, prefixtest.Chain(1, 100))
	for range 3 {
		tb.Observe(0, 100, math.MaxInt)
	}
	if got := tb.Len(0); got != 100 {
		t.Errorf("%d blocks are left, want 100", got)
	}
}
