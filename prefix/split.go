package prefix

import (
	"math/bits"
	"sync"
)

// split makes one more segment. Segments are divided in pairs of places in
// first, from its start on, one for each that there is beyond a power of two.
func (s *segments[C]) split() {
	if s.count == 0 {
		p := new(cells[C])
		s.first, s.shift = []*cells[C]{p, p}, 63
		s.resized(1)
		return
	}
	if s.count == len(s.first) {
		s.double()
	}
	old := s.first[s.pair()]
	s.first[s.pair()+1] = new(cells[C])
	s.resized(s.count + 1)
	more, all := s.cutAll(old), copied(old)
	*old = cells[C]{}
	s.deal(all, more)
	copies.Put(all)
}

// copies holds segments for copied. They would take half of a goroutine's
// stack.
var copies sync.Pool

func copied[C words](p *cells[C]) *cells[C] {
	q, ok := copies.Get().(*cells[C])
	if !ok { // none, or one of the other size
		q = new(cells[C])
	}
	*q = *p
	return q
}

// merge gives the cells of the last segment back to where they came from.
func (s *segments[C]) merge() {
	s.resized(s.count - 1)
	i := s.pair()
	last := s.first[i+1]
	s.first[i+1] = s.first[i]
	s.deal(last, s.cutAll(last))
	if i == 0 && s.count > 1 {
		s.halve()
	}
}

// pair returns the first place in first of the pair to be divided next.
func (s *segments[C]) pair() int { return 2*s.count - len(s.first) }

// deal puts cells and those of a list of spills where they belong.
func (s *segments[C]) deal(p *cells[C], more *spill[C]) {
	var none C
	for _, c := range p {
		if c != none {
			s.put(c)
		}
	}
	for ; more != nil; more = more.next {
		s.deal(more.cells, nil)
	}
}

// double gives each segment a pair of places in first.
func (s *segments[C]) double() {
	first := make([]*cells[C], 2*s.count)
	for i := range first {
		first[i] = s.first[i/2]
	}
	s.first = first
	s.shift--
}

// halve undoes double.
func (s *segments[C]) halve() {
	first := make([]*cells[C], s.count)
	for i := range first {
		first[i] = s.first[2*i]
	}
	s.first = first
	s.shift++
}

const listBytes = 64 // the list of one or two segments, and as much again

// bytes returns the memory that the segments and their list take.
func (s *segments[C]) bytes() int64 {
	var c C
	size := segmentCells * 8 * int64(len(c))
	sum := int64(s.count)*size + int64(len(s.first))*8
	for l := s.spills; l != nil; l = l.next {
		sum += size + spillBytes
	}
	return sum
}

// floor2 returns the greatest power of two that is not above n, which must be
// positive.
func floor2(n int) int { return 1 << (bits.Len(uint(n)) - 1) }
