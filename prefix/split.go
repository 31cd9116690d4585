package prefix

import (
	"math/bits"
	"sync"
)

// split makes one more segment. Segments are divided in pairs of places in
// first, from its start on, one for each that there is beyond a power of two.
func (s *segments) split() {
	if s.count == 0 {
		p := new(cells)
		s.first, s.shift = []*cells{p, p}, 63
		s.resized(1)
		return
	}
	if s.count == len(s.first) {
		s.double()
	}
	old := s.first[s.pair()]
	s.first[s.pair()+1] = new(cells)
	s.resized(s.count + 1)
	more, all := s.cutAll(old), copied(old)
	*old = cells{}
	s.deal(all, more)
	copies.Put(all)
}

// copies holds segments for copied. They would take a quarter of a goroutine's
// stack.
var copies = sync.Pool{New: func() any { return new(cells) }}

func copied(p *cells) *cells {
	q := copies.Get().(*cells)
	*q = *p
	return q
}

// merge gives the entries of the last segment back to where they came from.
func (s *segments) merge() {
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
func (s *segments) pair() int { return 2*s.count - len(s.first) }

// deal puts entries and those of a list of spills where they belong.
func (s *segments) deal(p *cells, more *spill) {
	for _, e := range p {
		if e != 0 {
			s.put(e)
		}
	}
	for ; more != nil; more = more.next {
		s.deal(more.cells, nil)
	}
}

// double gives each segment a pair of places in first.
func (s *segments) double() {
	first := make([]*cells, 2*s.count)
	for i := range first {
		first[i] = s.first[i/2]
	}
	s.first = first
	s.shift--
}

// halve undoes double.
func (s *segments) halve() {
	first := make([]*cells, s.count)
	for i := range first {
		first[i] = s.first[2*i]
	}
	s.first = first
	s.shift++
}

const segmentBytes = segmentCells * entryBytes

const listBytes = 64 // the list of one or two segments, and as much again

// bytes returns the memory that the segments and their list take.
func (s *segments) bytes() int64 {
	sum := int64(s.count)*segmentBytes + int64(len(s.first))*8
	for l := s.spills; l != nil; l = l.next {
		sum += segmentBytes + spillBytes
	}
	return sum
}

// floor2 returns the greatest power of two that is not above n, which must be
// positive.
func floor2(n int) int { return 1 << (bits.Len(uint(n)) - 1) }
