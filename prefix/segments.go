package prefix

// segments are the cells of an open-addressed hash table, cut into segments of
// a fixed size so that the table grows and shrinks a segment at a time (linear
// hashing): a new segment takes half of the cells of one other, and gives them
// back when it goes. So no call takes longer because much is in the table, but
// for those that double or halve the list of segments, which copy 8 bytes for
// each.
//
// How many segments there are depends on the number of cells taken alone (see
// room). What has no room in its segment is in a spill. These are few: keys
// spread evenly however they were chosen (see mixer).
//
// A cell's first word is its mixed key, or has the upper half of it. The zero
// cell is empty. The zero segments are empty.
type segments[C words] struct {
	first  []*cells[C] // by the upper bits of the mixed key
	shift  uint        // of a mixed key, to its place in first
	n      int         // cells taken
	count  int         // segments but for spills
	most   int         // with more cells there is another segment
	least  int         // with fewer there is one less
	spills *spill[C]
}

type words interface{ ~[1]uint64 | ~[2]uint64 }

// segmentCells is the size of a segment: as many as a uint8 tells apart.
const segmentCells = 256

type cells[C words] [segmentCells]C

// place returns where in its segment a mixed key belongs.
func place(mixed uint64) uint8 { return uint8(mixed >> 32) }

// taken reports whether there is something in cell i: no cell that is taken has
// a zero last word.
func (p *cells[C]) taken(i uint8) bool { return p[i][len(p[i])-1] != 0 }

// put puts c where it belongs or behind that, and reports whether there was
// room.
func (p *cells[C]) put(c C) bool {
	home := place(c[0])
	for i := home; ; {
		if !p.taken(i) {
			p[i] = c
			return true
		}
		if i++; i == home {
			return false
		}
	}
}

// free empties a cell and fills the gap with later cells of its run.
func (p *cells[C]) free(gap uint8) {
	var none C
	for i, start := gap+1, gap; p.taken(i) && i != start; i++ {
		// A cell may move into the gap unless its own place lies behind it.
		if i-place(p[i][0]) >= i-gap {
			p[gap] = p[i]
			gap = i
		}
	}
	p[gap] = none
}

// room returns the most cells that may be taken in so many segments: five
// eighths of 2^k, and 32 more for each further one. So when 2^k are to become twice
// as many, there is one more for each 32 cells; the last to be divided is six
// eighths full, and then all are three eighths full.
func room(segments int) int {
	return segmentCells / 8 * (segments + 4*floor2(segments))
}

// resized sets count and what follows from it. Segments are taken back when a
// fifth of the cells for which they were added is gone.
func (s *segments[C]) resized(count int) {
	s.count, s.most, s.least = count, room(count), 0
	if count > 1 {
		s.least = room(count-1) / 5 * 4
	}
}

// home returns the segment for a mixed key. There must be one.
func (s *segments[C]) home(mixed uint64) *cells[C] { return s.first[mixed>>(s.shift&63)] }

// fetch looks at where keys are, all at once, so that the memory for one does
// not have to be waited for before the next. The result means nothing.
//
//go:noinline
func (s *segments[C]) fetch(keys []uint64) (sum uint64) {
	if s.n == 0 {
		return 0
	}
	for _, key := range keys {
		sum += s.home(key)[place(key)][0]
	}
	return sum // or nothing need be looked at
}

// add puts in a cell whose key is absent.
func (s *segments[C]) add(c C) {
	s.reserve()
	s.n++
	s.put(c)
}

// reserve makes sure that there are enough segments for one cell more.
func (s *segments[C]) reserve() {
	if s.n == s.most {
		s.split()
	}
}

// put finds a place for a cell.
func (s *segments[C]) put(c C) {
	if home := s.home(c[0]); !home.put(c) {
		s.spill(home, c)
	}
}

// remove takes out cell i of p.
func (s *segments[C]) remove(p *cells[C], i uint8) {
	home := s.home(p[i][0])
	p.free(i)
	if s.spills != nil {
		s.refill(home, p)
	}
	if s.n--; s.n == 0 {
		*s = segments[C]{}
	} else if s.n < s.least {
		s.merge()
	}
}
