package prefix

// spill is a segment with cells that had no room in another, home. Of those
// with the same home the first in the list is the only one that may not be full;
// home is full.
type spill[C words] struct {
	home, cells *cells[C]
	n           int // cells taken; never 0
	next        *spill[C]
}

const spillBytes = 32 // a spill without its cells

// of returns the first of l and those after it that belongs to home, or nil.
func (l *spill[C]) of(home *cells[C]) *spill[C] {
	for l != nil && l.home != home {
		l = l.next
	}
	return l
}

// next returns where to look for a key after p, which is home or a spill of
// it: nil if there is nothing more.
func (s *segments[C]) next(home, p *cells[C]) *cells[C] {
	l := s.spills
	if l == nil {
		return nil
	}
	if p != home {
		for l.cells != p {
			l = l.next
		}
		l = l.next
	}
	if l = l.of(home); l == nil {
		return nil
	}
	return l.cells
}

// spill puts in a cell for which home has no room.
func (s *segments[C]) spill(home *cells[C], c C) {
	l := s.spills.of(home)
	if l == nil || l.n == segmentCells {
		l = &spill[C]{home: home, cells: new(cells[C]), next: s.spills}
		s.spills = l
	}
	l.cells.put(c)
	l.n++
}

// refill moves a cell from home's spills to p, home or one of them, from which
// one was taken.
func (s *segments[C]) refill(home, p *cells[C]) {
	l := s.spills.of(home)
	if l == nil {
		return
	}
	if l.cells != p {
		var none C
		i := uint8(0)
		for l.cells[i] == none {
			i++
		}
		p.put(l.cells[i])
		l.cells.free(i)
	}
	if l.n--; l.n == 0 {
		s.cut(l)
	}
}

// cut takes l out of the list.
func (s *segments[C]) cut(l *spill[C]) {
	at := &s.spills
	for *at != l {
		at = &(*at).next
	}
	*at = l.next
}

// cutAll takes home's spills out of the list and returns them as one.
func (s *segments[C]) cutAll(home *cells[C]) (list *spill[C]) {
	for l := s.spills.of(home); l != nil; l = s.spills.of(home) {
		s.cut(l)
		l.next, list = list, l
	}
	return list
}
