package tokenize

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestPackedTellsWordsApart: words of one length are the same number only if they
// are the same.
func TestPackedTellsWordsApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := 1; n <= shortWord; n++ {
		for range 5_000 {
			a := make([]byte, n)
			for i := range a {
				a[i] = byte(rng.IntN(256))
			}
			want := uint64(0)
			for i, c := range a {
				want |= uint64(c) << (8 * i)
			}
			if got := packed(string(a)); got != want {
				t.Fatalf("packed(%q) = %#x, want %#x", a, got, want)
			}
		}
	}
}

func TestWordCacheNeverMixesWords(t *testing.T) {
	c := newWordCache()
	// All words share an entry, so writers and readers meet all the time.
	word := func(i int) string { return fmt.Sprintf("%0*d", 1+i*7%cacheWord, i) }
	hash := func(i int) uint64 { return uint64(i) }
	ids := func(i int) []uint32 {
		out := make([]uint32, 1+i%cacheIDs)
		for j := range out {
			out[j] = uint32(i*100 + j)
		}
		return out
	}
	hits := make([]int, 4)
	var wg sync.WaitGroup
	for worker := range hits {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 2))
			for range 20_000 {
				i := rng.IntN(5)
				got, ok := c.get([]uint32{7}, word(i), hash(i))
				if !ok {
					if len(got) != 1 {
						t.Errorf("a miss returned %v", got)
					}
					c.put(word(i), hash(i), ids(i))
					continue
				}
				hits[worker]++
				if got[0] != 7 || !slices.Equal(got[1:], ids(i)) {
					t.Errorf("get(%q) = %v, want 7 and %v", word(i), got, ids(i))
				}
			}
		})
	}
	wg.Wait()
	if slices.Max(hits) == 0 {
		t.Error("no word was ever found")
	}
}

func TestWordCacheRefusesWhatDoesNotFit(t *testing.T) {
	c := newWordCache()
	long := string(make([]byte, cacheWord+1))
	c.put(long, 1, []uint32{1})
	c.put("a", 2, make([]uint32, cacheIDs+1))
	for hash, word := range map[uint64]string{1: long, 2: "a"} {
		if got, ok := c.get(nil, word, hash); ok {
			t.Errorf("get of %d bytes = %v, want a miss", len(word), got)
		}
	}
	c.put(long[1:], 3, make([]uint32, cacheIDs))
	if got, ok := c.get(nil, long[1:], 3); !ok || len(got) != cacheIDs {
		t.Errorf("get of the longest word = %v, %v", got, ok)
	}
}

func TestPairTableGrows(t *testing.T) {
	table := newPairTable(0)
	const n = 10_000
	for i := range uint32(n) {
		table.put(i%100, i/100, i, i+1)
	}
	table.put(5, 5, 1, 2) // a later merge of the same pair counts
	for i := range uint32(n) {
		wantRank, wantID := i, i+1
		if i == 505 {
			wantRank, wantID = 1, 2
		}
		if rank, id := table.find(i%100, i/100); rank != wantRank || id != wantID {
			t.Fatalf("find(%d, %d) = %d, %d, want %d, %d", i%100, i/100, rank, id, wantRank, wantID)
		}
	}
	if rank, _ := table.find(100, 1); rank != none {
		t.Errorf("find of an absent pair = %d", rank)
	}
}

func TestMinHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var h minHeap
	var model []uint64
	for range 5000 {
		switch v := uint64(rng.IntN(1000)); {
		case len(h) == 0 || rng.IntN(3) > 0:
			h.push(v)
			model = append(model, v)
		case rng.IntN(2) == 0:
			h.pop()
			model = slices.Delete(model, 0, 1)
		default:
			h.replaceTop(v)
			model[0] = v
		}
		slices.Sort(model)
		if len(h) != len(model) || len(h) > 0 && h[0] != model[0] {
			t.Fatalf("heap has %d values, first %v, want %d, %v", len(h), h, len(model), model)
		}
	}
}

// naiveMerge looks at every pair again for each merge.
func naiveMerge(ids []uint32, pairs *pairTable) []uint32 {
	for {
		best, at, made := none, -1, uint32(0)
		for i := range len(ids) - 1 {
			if rank, id := pairs.find(ids[i], ids[i+1]); rank < best {
				best, at, made = rank, i, id
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = made
		ids = slices.Delete(ids, at+1, at+2)
	}
}

// Merges here make tokens that other merges make too, in no sensible order of
// ranks, so that pairs of one rank come up at different times and places.
func TestMergingAgreesWithANaiveWay(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	var m merger
	for round := range 4000 {
		pairs := newPairTable(0)
		ids, most, first := 3+rng.IntN(12), 60, 4
		if round%20 == 0 { // many ranks at once
			ids, most, first = 40, 1500, 40
		}
		for _, rank := range rng.Perm(5 + rng.IntN(most)) {
			pairs.put(uint32(rng.IntN(ids)), uint32(rng.IntN(ids)), uint32(rank), uint32(rng.IntN(ids)))
		}
		n := 2 + rng.IntN(scanLimit-1)
		if rng.IntN(2) == 0 {
			n = scanLimit + 1 + rng.IntN(200)
		}
		word := make([]uint32, n)
		m.reset()
		for i := range word {
			word[i] = uint32(rng.IntN(min(ids, first)))
			m.add(word[i], otherByte, &pairs)
		}
		got := m.appendMerged(nil, &pairs)
		want := naiveMerge(slices.Clone(word), &pairs)
		if !slices.Equal(got, want) {
			t.Fatalf("merging %v = %v, want %v", word, got, want)
		}
		if n <= scanLimit {
			if got := m.long.merge(nil, m.syms, &pairs); !slices.Equal(got, want) {
				t.Fatalf("long merge of %v = %v, want %v", word, got, want)
			}
		}
	}
}
