package prefix

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// record is up to 16 blocks of one group that follow each other in a chain, and
// the slots of one plane that hold each. Who holds one holds those before it, so
// a record of which nobody holds the first block is of no use. The shard in whose
// table it is guards it.
type record struct {
	keys  [group]uint64 // mixed
	slots [group]uint64 // a bit for each; where there are none, the key means nothing
}

const recordBytes = 2 * group * 8

// match returns how many of keys, in order, the record begins with.
func (rec *record) match(keys []uint64) int {
	n := 0
	for n < len(keys) && n < group && rec.slots[n] != 0 && rec.keys[n] == keys[n] {
		n++
	}
	return n
}

// endsAt reports whether the record has no block after the first n, but room.
func (rec *record) endsAt(n uint8) bool { return n < group && rec.slots[n] == 0 }

// records are the records of a table, by number, in pages. Numbers start at 1.
type records struct {
	pages []atomic.Pointer[recordPage] // nil where there is none

	mu    sync.Mutex
	meta  []pageMeta
	free  uint32 // list of pages with a free record, by number and 1
	spare int    // pages of which all are free
	gone  uint32 // list of numbers of pages that are nil, each and 1
	made  int    // numbers of pages given out so far
	count int    // pages that are not nil
}

const (
	pageRecords     = 16
	recordPageBytes = pageRecords * recordBytes
	// sparePages is how many pages are kept though no record of theirs is used,
	// so that a page does not come and go with a prompt.
	sparePages = 4
	// pageMetaBytes is what a page that may be costs, made or not.
	pageMetaBytes = 8 + 12
)

type recordPage [pageRecords]record

// pageMeta tells which records of a page are free, a bit for each, and its
// neighbours in the list that it is in.
type pageMeta struct {
	prev, next uint32
	unused     uint16
}

// newRecords returns room for records of so many bytes.
func newRecords(bytes int64) records {
	pages := min(bytes/recordPageBytes, maxBlocks/pageRecords)
	return records{pages: make([]atomic.Pointer[recordPage], pages), meta: make([]pageMeta, pages)}
}

// at returns record i.
func (r *records) at(i uint32) *record {
	return &r.pages[(i-1)/pageRecords].Load()[(i-1)%pageRecords]
}

// take returns the number of a record that is not used, or 0 if there is none.
func (r *records) take() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free == 0 && !r.grow() {
		return 0
	}
	page := r.free - 1
	m := &r.meta[page]
	if m.unused == 1<<pageRecords-1 {
		r.spare--
	}
	i := bits.TrailingZeros16(m.unused)
	if m.unused &^= 1 << i; m.unused == 0 {
		r.unlist(page)
	}
	return page*pageRecords + uint32(i) + 1
}

// grow makes a page. It reports whether there may be one more.
func (r *records) grow() bool {
	page := r.gone - 1
	switch {
	case r.gone != 0:
		r.gone = r.meta[page].next
	case r.made < len(r.pages):
		page = uint32(r.made)
		r.made++
	default:
		return false
	}
	r.pages[page].Store(new(recordPage))
	r.meta[page] = pageMeta{unused: 1<<pageRecords - 1}
	r.count++
	r.spare++
	r.list(page)
	return true
}

// put says that record i is not used any more.
func (r *records) put(i uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	page := (i - 1) / pageRecords
	m := &r.meta[page]
	if m.unused == 0 {
		r.list(page)
	}
	m.unused |= 1 << ((i - 1) % pageRecords)
	if m.unused != 1<<pageRecords-1 {
		return
	}
	if r.spare++; r.spare > sparePages {
		r.drop(page)
	}
}

// drop frees a page.
func (r *records) drop(page uint32) {
	r.unlist(page)
	r.pages[page].Store(nil)
	r.meta[page] = pageMeta{next: r.gone}
	r.gone = page + 1
	r.count--
	r.spare--
}

// list puts a page into the list of those with free records.
func (r *records) list(page uint32) {
	m := &r.meta[page]
	m.prev, m.next = 0, r.free
	if r.free != 0 {
		r.meta[r.free-1].prev = page + 1
	}
	r.free = page + 1
}

// unlist takes a page out of it.
func (r *records) unlist(page uint32) {
	m := r.meta[page]
	if m.prev != 0 {
		r.meta[m.prev-1].next = m.next
	} else {
		r.free = m.next
	}
	if m.next != 0 {
		r.meta[m.next-1].prev = m.prev
	}
}

// held returns how many records there are, used or not.
func (r *records) held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count * pageRecords
}

// runs returns how many runs more a slot needs at most to hold pieces as those it
// used last: one for each record of which it has none, and one for what it holds of
// another beyond its piece, as it does where a later piece is of the same record. No
// chain of hashes has such pieces, but one of other numbers may.
func (r *records) runs(pieces []piece, slot uint64) (n int) {
	for i, p := range pieces {
		rec := r.at(p.record)
		again := slices.ContainsFunc(pieces[i+1:], func(o piece) bool { return o.record == p.record })
		if again || rec.slots[0]&slot == 0 || p.n < group && rec.slots[p.n]&slot != 0 {
			n++
		}
	}
	return n
}
