package prefix

import "math/bits"

// index is an open-addressed hash table from a block's hash to the set of
// slots that hold it, one bit each; an empty set is an empty cell. It doubles
// at three quarters full and halves at a quarter.
//
// Whoever writes prompts chooses block hashes, so a cell's place depends on
// the secret odd multiplier mul: without it long runs could be provoked.
type index struct {
	cells []cell
	n     int
	mul   uint64
	sink  uint64 // keeps the loads of fetch
}

type cell struct {
	key   uint64
	slots uint64
}

const (
	firstCells = 16
	cellBytes  = 16
)

func (x *index) home(key uint64) int {
	return place(key*x.mul, len(x.cells))
}

// place maps a mixed hash to one of size places, a power of two, by its
// upper bits.
func place(mixed uint64, size int) int {
	return int(mixed >> (64 - uint(bits.TrailingZeros(uint(size)))))
}

// slots returns the slots that hold key.
func (x *index) slots(key uint64) uint64 {
	if x.n == 0 {
		return 0
	}
	mask := len(x.cells) - 1
	for i := x.home(key); x.cells[i].slots != 0; i = (i + 1) & mask {
		if x.cells[i].key == key {
			return x.cells[i].slots
		}
	}
	return 0
}

// fetch looks at where keys are, all at once, so that the memory for one does
// not have to be waited for before the next.
func (x *index) fetch(keys []uint64) {
	if len(x.cells) == 0 {
		return
	}
	var sum uint64
	for _, key := range keys {
		sum += x.cells[x.home(key)].key
	}
	x.sink = sum
}

// set adds slots to those that hold key.
func (x *index) set(key, slots uint64) {
	if 4*(x.n+1) > 3*len(x.cells) {
		x.resize(max(firstCells, 2*len(x.cells)))
	}
	mask := len(x.cells) - 1
	i := x.home(key)
	for x.cells[i].slots != 0 && x.cells[i].key != key {
		i = (i + 1) & mask
	}
	if x.cells[i].slots == 0 {
		x.n++
		x.cells[i].key = key
	}
	x.cells[i].slots |= slots
}

// clear takes slots from those that hold key.
func (x *index) clear(key, slots uint64) {
	if x.n == 0 {
		return
	}
	mask := len(x.cells) - 1
	i := x.home(key)
	for x.cells[i].key != key {
		if x.cells[i].slots == 0 {
			return
		}
		i = (i + 1) & mask
	}
	if x.cells[i].slots == 0 {
		return
	}
	if x.cells[i].slots &^= slots; x.cells[i].slots == 0 {
		x.close(i)
		if x.n--; len(x.cells) > firstCells && 4*x.n < len(x.cells) {
			x.resize(len(x.cells) / 2)
		}
	}
}

// close fills the gap at i with later cells of its run.
func (x *index) close(gap int) {
	mask := len(x.cells) - 1
	for i := (gap + 1) & mask; x.cells[i].slots != 0; i = (i + 1) & mask {
		// A cell may move into the gap unless its own place lies behind it.
		if home := x.home(x.cells[i].key); (i-home)&mask >= (i-gap)&mask {
			x.cells[gap] = x.cells[i]
			gap = i
		}
	}
	x.cells[gap] = cell{}
}

func (x *index) resize(size int) {
	old := x.cells
	x.cells = make([]cell, size)
	mask := size - 1
	for _, c := range old {
		if c.slots == 0 {
			continue
		}
		i := x.home(c.key)
		for x.cells[i].slots != 0 {
			i = (i + 1) & mask
		}
		x.cells[i] = c
	}
}
