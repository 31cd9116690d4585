package prefix_test

import (
	"math/rand/v2"
	"testing"

	"github.com/expediterhq/expediter/prefix"
)

// fill gives each of 64 slots as many new chains of 112 blocks as it has room
// for, and returns what adds one more to a slot.
func fill(tb *prefix.Table, slotBlocks int) (addOne func()) {
	const slots, length = 64, 112
	for s := range slots {
		tb.SetBlocks(s, slotBlocks)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	chain := make([]uint64, length)
	addOne = func() {
		for i := range chain {
			chain[i] = rng.Uint64()
		}
		tb.Add(rng.IntN(slots), chain)
	}
	for range slots * slotBlocks / length * 3 / 2 {
		addOne()
	}
	return addOne
}

// BenchmarkAddNew adds a prompt of 1,800 tokens that no replica has seen, where
// 64 replicas' caches are full, so that as much is forgotten.
func BenchmarkAddNew(b *testing.B) {
	addOne := fill(prefix.NewTable(prefix.TableConfig{}), 20_000)
	b.ReportAllocs()
	for b.Loop() {
		addOne()
	}
}
