// Package prefixtest checks that an implementation of prefix.Map keeps the
// promises of that interface.
package prefixtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/expediterhq/expediter/prefix"
)

// Run checks the maps that newMap returns. Each must be new and empty, have
// room for 8 slots of 10,000 blocks, and forget nothing of its own accord
// while it is within that.
func Run(t *testing.T, newMap func(t *testing.T) prefix.Map) {
	checks := []struct {
		name string
		f    func(t *testing.T, m prefix.Map)
	}{
		{"Empty", empty},
		{"LeadingBlocks", leadingBlocks},
		{"SharedBeginnings", sharedBeginnings},
		{"Forget", forget},
		{"StrangeSlots", strangeSlots},
		{"KeepsNoArguments", keepsNoArguments},
		{"RandomAgainstModel", randomAgainstModel},
		{"Concurrent", concurrent},
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.f(t, newMap(t)) })
	}
}

// Chain returns n block hashes that share no block with a chain of another
// seed.
func Chain(seed uint64, n int) []uint64 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(seed) + uint32(i)
	}
	return prefix.AppendBlocks(nil, prefix.Seed(fmt.Sprint(seed), ""), tokens, 1)
}

func overlap(m prefix.Map, slots int, blocks []uint64) []int {
	n := make([]int, slots)
	for i := range n {
		n[i] = -7 // whatever was there must not matter
	}
	m.Overlap(n, blocks)
	return n
}

func want(t *testing.T, m prefix.Map, blocks []uint64, counts ...int) {
	t.Helper()
	if got := overlap(m, len(counts), blocks); !slices.Equal(got, counts) {
		t.Errorf("Overlap of %d blocks = %v, want %v", len(blocks), got, counts)
	}
}

func empty(t *testing.T, m prefix.Map) {
	want(t, m, Chain(1, 5), 0, 0, 0)
	want(t, m, nil, 0, 0)
	m.Overlap(nil, Chain(1, 5))
	m.Add(0, nil)
	want(t, m, Chain(1, 5), 0)
}

func leadingBlocks(t *testing.T, m prefix.Map) {
	c := Chain(1, 100)
	m.Add(0, c[:1])
	m.Add(1, c[:50])
	m.Add(2, c)
	want(t, m, c, 1, 50, 100, 0)
	want(t, m, c[:30], 1, 30, 30, 0)
	m.Add(0, c[:60])
	m.Add(2, c[:3]) // a shorter one takes nothing away
	want(t, m, c, 60, 50, 100, 0)
}

func sharedBeginnings(t *testing.T, m prefix.Map) {
	tokens := make([]uint32, 64)
	a := prefix.AppendBlocks(nil, prefix.Seed("", ""), tokens, 16)
	tokens[40] = 1
	b := prefix.AppendBlocks(nil, prefix.Seed("", ""), tokens, 16)
	other := prefix.AppendBlocks(nil, prefix.Seed("lora", ""), tokens, 16)
	m.Add(0, a)
	want(t, m, b, 2)
	want(t, m, other, 0)
	m.Add(0, b)
	want(t, m, a, 4)
	want(t, m, b, 4)
}

func forget(t *testing.T, m prefix.Map) {
	c := Chain(1, 40)
	for slot := range 4 {
		m.Add(slot, c)
	}
	m.Forget(2)
	m.Forget(7)
	want(t, m, c, 40, 40, 0, 40)
	m.Add(2, c[:5])
	want(t, m, c, 40, 40, 5, 40)
}

func strangeSlots(t *testing.T, m prefix.Map) {
	c := Chain(1, 4)
	for _, slot := range []int{-1, math.MaxInt} {
		m.Add(slot, c)
		m.Forget(slot)
	}
	m.Add(6, c)
	want(t, m, c, 0, 0, 0) // a slot beyond n is not told
	want(t, m, c, 0, 0, 0, 0, 0, 0, 4, 0)
}

func keepsNoArguments(t *testing.T, m prefix.Map) {
	c := Chain(1, 20)
	mine := slices.Clone(c)
	m.Add(0, mine)
	clear(mine)
	want(t, m, c, 20)
	n := overlap(m, 1, c)
	m.Add(1, c)
	m.Forget(0)
	if n[0] != 20 {
		t.Errorf("n[0] became %d after Overlap returned, want 20", n[0])
	}
}

// model is a Map written to be obviously right.
type model map[int]map[uint64]bool

func (m model) overlap(slots int, blocks []uint64) []int {
	n := make([]int, slots)
	for slot := range n {
		for n[slot] < len(blocks) && m[slot][blocks[n[slot]]] {
			n[slot]++
		}
	}
	return n
}

func randomAgainstModel(t *testing.T, m prefix.Map) {
	rnd := rand.New(rand.NewPCG(1, 2))
	ref := model{}
	for step := range 3000 {
		// Twenty conversations that begin alike in fours.
		id := rnd.Uint64N(20)
		c := append(Chain(id/4, 10), Chain(100+id, 30)...)
		c = c[:1+rnd.IntN(len(c))]
		slot := rnd.IntN(8)
		switch rnd.IntN(20) {
		case 0:
			m.Forget(slot)
			delete(ref, slot)
		case 1, 2, 3, 4, 5, 6, 7:
			m.Add(slot, c)
			if ref[slot] == nil {
				ref[slot] = map[uint64]bool{}
			}
			for _, b := range c {
				ref[slot][b] = true
			}
		default:
			if got, want := overlap(m, 8, c), ref.overlap(8, c); !slices.Equal(got, want) {
				t.Fatalf("step %d: Overlap = %v, want %v", step, got, want)
			}
		}
	}
}

func concurrent(t *testing.T, m prefix.Map) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			own, shared := Chain(uint64(10+g), 50), Chain(1, 50)
			n := make([]int, 8)
			for i := range 300 {
				m.Add(g, own)
				m.Add(g, shared[:1+i%50])
				m.Overlap(n, own)
				if n[g] != 50 {
					t.Errorf("slot %d: own chain overlaps by %d, want 50", g, n[g])
					return
				}
				m.Overlap(n, shared)
				if slices.Min(n) < 0 || slices.Max(n) > 50 {
					t.Errorf("Overlap = %v, want 0 to 50", n)
					return
				}
				if i%7 == 0 {
					m.Forget(g)
				}
			}
		})
	}
	wg.Wait()
}
