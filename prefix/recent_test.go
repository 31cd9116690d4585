package prefix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRecentAgainstList compares with a plain list where all keys have the same
// place and most of them the same upper half, so that entries are told apart by
// their nodes.
func TestRecentAgainstList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	q := recent{mul: 1}
	var list []uint64 // the most recently used first
	for step := range 20_000 {
		key := 1 + rng.Uint64N(60) + rng.Uint64N(2)<<32
		at := slices.Index(list, key)
		if (q.find(key) != 0) != (at >= 0) {
			t.Fatalf("step %d: key %x is found as node %d, and is at %d", step, key, q.find(key), at)
		}
		if rng.IntN(3) == 0 {
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
		if added := q.touch(key, uint32(step), uint32(key)); added != (at < 0) {
			t.Fatalf("step %d: added %v, want %v", step, added, at < 0)
		}
		if at >= 0 {
			list = slices.Delete(list, at, at+1)
		}
		if list = slices.Insert(list, 0, key); q.n != len(list) {
			t.Fatalf("step %d: %d keys, want %d", step, q.n, len(list))
		}
	}
}
