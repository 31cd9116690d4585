package prefix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// block is one of a record, as a plain list of blocks has it.
type block struct {
	record uint32
	at     uint8
}

// blocksOf returns the blocks of all runs, the most recently used first, and fails
// unless the runs are what they should be.
func blocksOf(t *testing.T, q *runs) (list []block) {
	t.Helper()
	taken, prev := 0, uint32(0)
	for i := q.first; i != 0; i = q.run(i).next {
		r := q.run(i)
		if r.prev != prev || r.from >= r.to {
			t.Fatalf("run %d of blocks %d to %d comes after run %d, and says %d", i, r.from, r.to, prev, r.prev)
		}
		prev = i
		taken++
		for at := r.from; at < r.to; at++ {
			list = append(list, block{r.record, at})
		}
		if r.later != 0 && (q.run(r.later).from != r.to || q.run(r.later).record != r.record) {
			t.Fatalf("after block %d of record %d comes block %d of %d", r.to, r.record, q.run(r.later).from, q.run(r.later).record)
		}
	}
	if q.last != prev || q.taken != taken || q.n != len(list) {
		t.Fatalf("%d runs with %d blocks, the last of which is %d; want %d, %d, %d", q.taken, q.n, q.last, taken, len(list), prev)
	}
	return list
}

// TestRunsAgainstList compares with a plain list of blocks where records have one
// of few keys, most of them with the same upper half, so that entries are told
// apart by their runs.
func TestRunsAgainstList(t *testing.T) {
	compareRuns(t, 20_000, 60, 3)
}

// TestRunsThatSpill have more records than there is room for in their segment.
func TestRunsThatSpill(t *testing.T) {
	compareRuns(t, 6_000, 800, 40)
}

// compareRuns compares with a plain list of the blocks of up to so many records,
// of which some are evicted in one of so many steps.
func compareRuns(t *testing.T, steps int, records uint32, evict int) {
	rng := rand.New(rand.NewPCG(1, 3))
	var q runs
	var list []block // the most recently used first
	spilled, split := false, false
	for step := range steps {
		switch {
		case rng.IntN(evict) == 0:
			for range min(len(list), rng.IntN(30)) {
				e := q.evict(1)
				if last := list[len(list)-1]; e.record != last.record || e.from != last.at || e.to != last.at+1 || e.shard != uint8(last.record) {
					t.Fatalf("step %d: blocks %d to %d of record %d in shard %d are evicted, want %v", step, e.from, e.to, e.record, e.shard, last)
				}
				list = list[:len(list)-1]
			}
		case rng.IntN(50) == 0:
			most := uint32(q.taken) + rng.Uint32N(q.made-uint32(q.taken)+1)
			if q.shrink(most); q.made != most || len(q.pages) != int(most+pageRuns-1)/pageRuns {
				t.Fatalf("step %d: %d runs in %d pages, want %d", step, q.made, len(q.pages), most)
			}
		default:
			p := piece{record: 1 + rng.Uint32N(records), n: 1 + uint8(rng.IntN(group))}
			p.mixed = uint64(p.record%2) << 32
			list = slices.DeleteFunc(list, func(b block) bool { return b.record == p.record && b.at < p.n })
			for at := range p.n {
				list = slices.Insert(list, int(at), block{p.record, at})
			}
			q.touch(p, uint32(step), uint8(p.record))
		}
		if got := blocksOf(t, &q); !slices.Equal(got, list) {
			t.Fatalf("step %d: blocks %v, want %v", step, got, list)
		}
		spilled = spilled || q.table.spills != nil
		split = split || q.taken > q.table.n
	}
	if spilled != (records > segmentCells) || !split {
		t.Errorf("there were spills: %v, and records in several runs: %v, of %d records", spilled, split, records)
	}
}

// TestEvictARun: no more blocks go at once than the last run has.
func TestEvictARun(t *testing.T) {
	var q runs
	q.touch(piece{1, 16, 0}, 1, 0)
	q.touch(piece{1, 4, 0}, 2, 0)
	q.touch(piece{2, 3, 0}, 3, 0)
	for _, want := range []evicted{{1, 14, 16, 0}, {1, 4, 14, 0}, {1, 0, 4, 0}, {2, 2, 3, 0}, {2, 0, 2, 0}} {
		n := int(want.to - want.from)
		if want.to == 14 || want.to == 4 || want.from == 0 {
			n = 100
		}
		if got := q.evict(n); got != want {
			t.Errorf("evicted %v, want %v", got, want)
		}
	}
	if q.taken != 0 || q.n != 0 || q.table.n != 0 || q.last != 0 {
		t.Errorf("%d runs and %d blocks are left", q.taken, q.n)
	}
}
