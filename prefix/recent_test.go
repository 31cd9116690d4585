package prefix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRecentAgainstList compares with a plain list where all keys have one of two
// places and most of them the same upper half, so that entries are told apart by
// their nodes.
func TestRecentAgainstList(t *testing.T) {
	compareRecent(t, 20_000, 60, 3)
}

// TestRecentThatSpills has more keys than there is room for in their segment.
func TestRecentThatSpills(t *testing.T) {
	compareRecent(t, 6_000, 800, 12)
}

// compareRecent compares with a plain list of up to 2*keys keys, of which some
// are evicted in one of so many steps.
func compareRecent(t *testing.T, steps int, keys uint64, evict int) {
	rng := rand.New(rand.NewPCG(1, 3))
	var q recent
	var list []uint64 // the most recently used first
	spilled := false
	for step := range steps {
		key := 1 + rng.Uint64N(keys) + rng.Uint64N(2)<<32
		at := slices.Index(list, key)
		if (q.find(key) != 0) != (at >= 0) {
			t.Fatalf("step %d: key %x is found as node %d, and is at %d", step, key, q.find(key), at)
		}
		if rng.IntN(evict) == 0 {
			k := rng.IntN(8)
			out := q.evict(make([]evicted, k))
			for _, e := range out {
				if last := list[len(list)-1]; e.key != last || e.shard != uint32(last) {
					t.Fatalf("step %d: %x of shard %d is evicted, want %x", step, e.key, e.shard, last)
				}
				list = list[:len(list)-1]
			}
			if len(out) < k && len(list) > 0 {
				t.Fatalf("step %d: %d evicted of %d", step, len(out), k)
			}
			continue
		}
		if rng.IntN(50) == 0 {
			most := uint32(q.n) + rng.Uint32N(q.made-uint32(q.n)+1)
			if q.shrink(most); q.made != most || len(q.pages) != int(most+pageNodes-1)/pageNodes {
				t.Fatalf("step %d: %d nodes in %d pages, want %d", step, q.made, len(q.pages), most)
			}
		}
		if added := q.touch(key, uint32(step), uint32(key)); added != (at < 0) {
			t.Fatalf("step %d: added %v, want %v", step, added, at < 0)
		}
		if at >= 0 {
			list = slices.Delete(list, at, at+1)
		}
		if list = slices.Insert(list, 0, key); q.n != len(list) {
			t.Fatalf("step %d: %d keys, want %d", step, q.n, len(list))
		}
		spilled = spilled || q.table.spills != nil
	}
	if spilled != (keys > segmentCells) {
		t.Errorf("there were spills: %v, of %d keys at a time", spilled, q.n)
	}
}
