package tokenize

import (
	"slices"
)

// longMerge merges words of many symbols in time that grows with n log n. Pairs
// of equal rank are listed in a bucket, by position, and only the first of a
// bucket is in the heap: in text that repeats, which is what makes words long,
// few ranks stand for very many pairs.
//
// A bucket is put in order once, when its rank is first the lowest. Pairs that
// get the rank after that go into the heap one by one.
type longMerge struct {
	heap    minHeap // rank<<32 | position<<1 | loose
	buckets []bucket
	table   []int32 // open-addressing: bucket by rank; -1 free
	sort    []int32
}

type bucket struct {
	rank       uint32
	head, tail int32 // of the list of symbols, -1 where it is empty
	opened     bool  // in order by position; takes no more pairs
	disorder   bool
}

// loose marks the heap's entry of a single pair, as opposed to a bucket's.
const loose = 1

// merge merges ranked symbols and appends the ids left to dst.
func (l *longMerge) merge(dst []uint32, syms []symbol, pairs *pairTable) []uint32 {
	l.start(syms)
	for len(l.heap) > 0 {
		top := l.heap[0]
		rank, at := uint32(top>>32), int32(uint32(top)>>1)
		if top&loose != 0 {
			l.heap.pop()
			if syms[at].prev == gone || syms[at].rank != rank || syms[at].bucket >= 0 {
				continue
			}
		} else if at = l.take(syms, rank, at); at < 0 {
			continue
		}
		l.join(syms, at, pairs)
	}
	for i := 0; i < len(syms); i = int(syms[i].next) {
		dst = append(dst, syms[i].id)
	}
	return dst
}

// start links the symbols and lists all their pairs.
func (l *longMerge) start(syms []symbol) {
	l.heap, l.buckets = l.heap[:0], l.buckets[:0]
	if l.table == nil {
		l.table = make([]int32, 256)
	}
	for i := range l.table {
		l.table[i] = -1
	}
	for i := range syms {
		s := &syms[i]
		s.prev, s.next, s.bucket = int32(i)-1, int32(i)+1, -1
	}
	for i := range syms {
		if syms[i].rank != none {
			l.list(syms, int32(i))
		}
	}
}

// take handles the heap's top where it is a bucket's entry. It returns the
// first pair of the bucket, taken from the list, or -1 where the top was not up
// to date.
func (l *longMerge) take(syms []symbol, rank uint32, at int32) int32 {
	b := &l.buckets[l.find(rank)]
	if !b.opened {
		b.opened = true
		l.order(syms, b)
		at = b.head
	}
	if b.head < 0 {
		l.heap.pop()
		return -1
	}
	if b.head != at {
		l.heap.replaceTop(bucketKey(rank, b.head))
		return -1
	}
	unlist(syms, b, at)
	if b.head < 0 {
		l.heap.pop()
	} else {
		l.heap.replaceTop(bucketKey(rank, b.head))
	}
	return at
}

func bucketKey(rank uint32, at int32) uint64 { return uint64(rank)<<32 | uint64(at)<<1 }

// join merges the pair at a position and ranks the pairs it is then part of.
func (l *longMerge) join(syms []symbol, at int32, pairs *pairTable) {
	s := &syms[at]
	next := &syms[s.next]
	l.drop(syms, s.next)
	s.id, s.next = s.made, next.next
	next.prev = gone
	s.rank = none
	if int(s.next) < len(syms) {
		syms[s.next].prev = at
		if s.rank, s.made = pairs.find(s.id, syms[s.next].id); s.rank != none {
			l.list(syms, at)
		}
	}
	if s.prev >= 0 {
		before := &syms[s.prev]
		l.drop(syms, s.prev)
		if before.rank, before.made = pairs.find(before.id, s.id); before.rank != none {
			l.list(syms, s.prev)
		}
	}
}

// list puts a pair, which is in no list, where its rank belongs.
func (l *longMerge) list(syms []symbol, at int32) {
	s := &syms[at]
	i := l.find(s.rank)
	if i < 0 {
		i = l.add(s.rank)
		l.heap.push(bucketKey(s.rank, 0))
	}
	b := &l.buckets[i]
	if b.opened {
		l.heap.push(bucketKey(s.rank, at) | loose)
		return
	}
	s.bucket, s.front, s.after = i, b.tail, -1
	if b.tail < 0 {
		b.head = at
	} else {
		syms[b.tail].after = at
		b.disorder = b.disorder || at < b.tail
	}
	b.tail = at
}

// drop takes a pair out of the list it is in, if any.
func (l *longMerge) drop(syms []symbol, at int32) {
	if i := syms[at].bucket; i >= 0 {
		unlist(syms, &l.buckets[i], at)
	}
}

func unlist(syms []symbol, b *bucket, at int32) {
	s := &syms[at]
	if s.front < 0 {
		b.head = s.after
	} else {
		syms[s.front].after = s.after
	}
	if s.after < 0 {
		b.tail = s.front
	} else {
		syms[s.after].front = s.front
	}
	s.bucket = -1
}

// order sorts the list of a bucket by position.
func (l *longMerge) order(syms []symbol, b *bucket) {
	if !b.disorder || b.head < 0 {
		return
	}
	l.sort = l.sort[:0]
	for at := b.head; at >= 0; at = syms[at].after {
		l.sort = append(l.sort, at)
	}
	slices.Sort(l.sort)
	last := int32(-1)
	for _, at := range l.sort {
		syms[at].front = last
		if last >= 0 {
			syms[last].after = at
		}
		last = at
	}
	syms[last].after = -1
	b.head, b.tail = l.sort[0], last
}

// find returns the bucket of a rank, or -1.
func (l *longMerge) find(rank uint32) int32 {
	mask := uint32(len(l.table) - 1)
	for h := spread(rank) & mask; ; h = (h + 1) & mask {
		if i := l.table[h]; i < 0 || l.buckets[i].rank == rank {
			return i
		}
	}
}

// add makes a bucket for a rank that has none.
func (l *longMerge) add(rank uint32) int32 {
	i := int32(len(l.buckets))
	l.buckets = append(l.buckets, bucket{rank: rank, head: -1, tail: -1})
	if 2*len(l.buckets) <= len(l.table) {
		l.enter(i)
		return i
	}
	l.table = make([]int32, 4*len(l.table))
	for h := range l.table {
		l.table[h] = -1
	}
	for j := range l.buckets {
		l.enter(int32(j))
	}
	return i
}

func (l *longMerge) enter(i int32) {
	mask := uint32(len(l.table) - 1)
	h := spread(l.buckets[i].rank) & mask
	for l.table[h] >= 0 {
		h = (h + 1) & mask
	}
	l.table[h] = i
}

func spread(rank uint32) uint32 { return rank * 0x9E3779B1 >> 12 }

// size returns the bytes of scratch space.
func (l *longMerge) size() int {
	return cap(l.heap)*8 + cap(l.buckets)*bucketSize + cap(l.table)*4 + cap(l.sort)*4
}
