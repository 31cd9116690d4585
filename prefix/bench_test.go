package prefix_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/expediterhq/expediter/prefix"
)

const (
	benchSlots = 64
	benchChain = 112 // blocks of a prompt of 1,800 tokens
)

// adder returns what adds a new chain to a slot of 64, each of which has room
// for slotBlocks, and returns the chain.
func adder(tb *prefix.Table, slotBlocks int) func() []uint64 {
	for s := range benchSlots {
		tb.SetBlocks(s, slotBlocks)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	chain := make([]uint64, benchChain)
	return func() []uint64 {
		for i := range chain {
			chain[i] = rng.Uint64()
		}
		tb.Add(rng.IntN(benchSlots), chain)
		return chain
	}
}

// fill gives each of 64 slots as many new chains of 112 blocks as it has room
// for, and returns what adds one more to a slot.
func fill(tb *prefix.Table, slotBlocks int) (addOne func()) {
	add := adder(tb, slotBlocks)
	for range benchSlots * slotBlocks / benchChain * 3 / 2 {
		add()
	}
	return func() { add() }
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

// BenchmarkAddKnown adds a prompt of 1,800 tokens that the replica has, one of
// as many as 64 replicas' caches have room for.
func BenchmarkAddKnown(b *testing.B) {
	tb := prefix.NewTable(prefix.TableConfig{})
	chains := spread(tb)
	i := 0
	for b.Loop() {
		i = (i + 1) % len(chains)
		tb.Add(i%benchSlots, chains[i])
	}
}

// spread adds as many chains as 64 slots have room for, each to one slot.
func spread(tb *prefix.Table) (chains [][]uint64) {
	const slotBlocks = 20_000
	adder(tb, slotBlocks)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range benchSlots * (slotBlocks / benchChain) {
		chain := make([]uint64, benchChain)
		for j := range chain {
			chain[j] = rng.Uint64()
		}
		tb.Add(i%benchSlots, chain)
		chains = append(chains, chain)
	}
	return chains
}

// BenchmarkOverlap asks for a prompt of 1,800 tokens that one replica has: one
// of as many as 64 replicas' caches have room for, the same one again, and one
// that none has.
func BenchmarkOverlap(b *testing.B) {
	tb := prefix.NewTable(prefix.TableConfig{})
	chains := spread(tb)
	n := make([]int, benchSlots)
	b.Run("any", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i = (i + 7919) % len(chains)
			tb.Overlap(n, chains[i])
		}
	})
	b.Run("same", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tb.Overlap(n, chains[9])
		}
	})
	b.Run("none", func(b *testing.B) {
		b.ReportAllocs()
		rng := rand.New(rand.NewPCG(5, 6))
		chain := make([]uint64, 1)
		for b.Loop() {
			chain[0] = rng.Uint64()
			tb.Overlap(n, chain)
		}
	})
}

// BenchmarkAddWhileGrowing adds new prompts of 1,800 tokens to a table that 64
// replicas' caches have not filled yet, another when it is full, and reports
// the longest that one took and what 999 of 1,000 are below. The machine's own
// pauses count, which is why the longest differs from run to run.
func BenchmarkAddWhileGrowing(b *testing.B) {
	const slotBlocks = 20_000
	const adds = benchSlots * slotBlocks / benchChain
	var add func() []uint64
	took := make([]time.Duration, 0, 1<<20)
	for b.Loop() {
		if len(took)%adds == 0 {
			add = adder(prefix.NewTable(prefix.TableConfig{}), slotBlocks)
		}
		start := time.Now()
		add()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)-1].Nanoseconds())/1e3, "max-us")
	b.ReportMetric(float64(took[len(took)*999/1000].Nanoseconds())/1e3, "p99.9-us")
}

// BenchmarkJoin adds 16 blocks to one slot after another of those that have not
// been used, where 64 full ones have all of the memory, and reports the longest.
func BenchmarkJoin(b *testing.B) {
	var tb *prefix.Table
	slot, most := 1024, time.Duration(0)
	chain := make([]uint64, 16)
	for b.Loop() {
		if slot == 1024 {
			b.StopTimer()
			tb, slot = prefix.NewTable(prefix.TableConfig{MaxBytes: 32 << 20}), benchSlots
			fill(tb, 40_000)
			b.StartTimer()
		}
		for i := range chain {
			chain[i] = rand.Uint64()
		}
		start := time.Now()
		tb.Add(slot, chain)
		most = max(most, time.Since(start))
		slot++
	}
	b.ReportMetric(float64(most.Nanoseconds())/1e3, "max-us")
}

// BenchmarkAddNowAndThen adds new prompts of 1,800 tokens to full tables, with
// pauses in which the processor forgets where they are, as between two requests,
// and reports what one takes. The time per operation has the pauses in it.
func BenchmarkAddNowAndThen(b *testing.B) {
	for _, mib := range []int64{4, 32, 256} {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) {
			addOne := fill(prefix.NewTable(prefix.TableConfig{MaxBytes: mib << 20}), 40_000)
			took := make([]time.Duration, 0, 1<<16)
			for b.Loop() {
				time.Sleep(4 * time.Millisecond)
				start := time.Now()
				addOne()
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "median-us")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-us")
		})
	}
}
