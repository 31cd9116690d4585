package prefix

// spill is a segment with entries that had no room in another, home. Of those
// with the same home the first in the list is the only one that may not be full;
// home is full.
type spill struct {
	home, cells *cells
	n           int // entries; never 0
	next        *spill
}

const spillBytes = 32 // a spill without its cells

// of returns the first of l and those after it that belongs to home, or nil.
func (l *spill) of(home *cells) *spill {
	for l != nil && l.home != home {
		l = l.next
	}
	return l
}

// next returns where to look for a key after p, which is home or a spill of
// it: nil if there is nothing more.
func (s *segments) next(home, p *cells) *cells {
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

// spill puts in an entry for which home has no room.
func (s *segments) spill(home *cells, e entry) {
	l := s.spills.of(home)
	if l == nil || l.n == segmentCells {
		l = &spill{home: home, cells: new(cells), next: s.spills}
		s.spills = l
	}
	l.cells.put(e)
	l.n++
}

// refill moves an entry from home's spills to p, home or one of them, from which
// one was taken.
func (s *segments) refill(home, p *cells) {
	l := s.spills.of(home)
	if l == nil {
		return
	}
	if l.cells != p {
		i := uint8(0)
		for l.cells[i] == 0 {
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
func (s *segments) cut(l *spill) {
	at := &s.spills
	for *at != l {
		at = &(*at).next
	}
	*at = l.next
}

// cutAll takes home's spills out of the list and returns them as one.
func (s *segments) cutAll(home *cells) (list *spill) {
	for l := s.spills.of(home); l != nil; l = s.spills.of(home) {
		s.cut(l)
		l.next, list = list, l
	}
	return list
}
