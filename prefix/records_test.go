package prefix

import (
	"math/rand/v2"
	"testing"
)

// TestRecords: no number is given out twice, pages without a used record go but for
// a few, and there are no more than there is room for.
func TestRecords(t *testing.T) {
	const pages = 40
	rnd := rand.New(rand.NewPCG(1, 7))
	r := newRecords(pages * recordPageBytes)
	used := map[uint32]bool{}
	var list []uint32
	for _, size := range []int{pages * pageRecords, 0, 100, 20, pages * pageRecords, 300, 0} {
		for len(list) != size {
			if rnd.IntN(4) > 0 == (len(list) < size) {
				i := r.take()
				if full := len(list) == pages*pageRecords; (i == 0) != full || used[i] {
					t.Fatalf("with %d records record %d is given out, used %t", len(list), i, used[i])
				}
				r.at(i).keys[0] = uint64(i) // there is a page for it
				used[i] = true
				list = append(list, i)
			} else if len(list) > 0 {
				k := rnd.IntN(len(list))
				i := list[k]
				if r.at(i).keys[0] != uint64(i) {
					t.Fatalf("record %d is another's", i)
				}
				r.put(i)
				delete(used, i)
				list[k] = list[len(list)-1]
				list = list[:len(list)-1]
			}
			checkRecords(t, &r, used)
		}
	}
	for range pages * pageRecords {
		if r.take() == 0 {
			t.Fatal("records that were put back are gone")
		}
	}
	if r.take() != 0 {
		t.Error("there are more records than there is room for")
	}
}

// checkRecords fails unless there are the pages of the used records and a few.
func checkRecords(t *testing.T, r *records, used map[uint32]bool) {
	t.Helper()
	in := map[uint32]bool{}
	for i := range used {
		in[(i-1)/pageRecords] = true
	}
	spare, count := 0, 0
	for page := range r.pages {
		if r.pages[page].Load() == nil {
			if in[uint32(page)] {
				t.Fatalf("page %d is gone", page)
			}
			continue
		}
		count++
		if !in[uint32(page)] {
			spare++
		}
	}
	if spare > sparePages || spare != r.spare || r.held() != count*pageRecords {
		t.Fatalf("%d of %d pages are not used; want at most %d, and that they say %d of %d", spare, count, sparePages, r.spare, r.held()/pageRecords)
	}
}
