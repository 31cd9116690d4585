package prefix

// segments are the entries of an open-addressed hash table, cut into segments of
// a fixed size so that the table grows and shrinks a segment at a time (linear
// hashing): a new segment takes half of the entries of one other, and gives them
// back when it goes. So no call takes longer because much is in the table, but
// for those that double or halve the list of segments, which copy 8 bytes for
// each.
//
// How many segments there are depends on the number of entries alone (see
// room). What has no room in its segment is in a spill. These are few: keys
// spread evenly however they were chosen (see mixer). The zero segments are empty.
type segments struct {
	first  []*cells // by the upper bits of the mixed key
	shift  uint     // of a mixed key, to its place in first
	n      int      // entries
	count  int      // segments but for spills
	most   int      // with more entries there is another segment
	least  int      // with fewer there is one less
	spills *spill
}

// entry is the number of what the table finds, which is never 0, below the upper
// half of its mixed key, which tells its place and, nearly always, other keys from
// it without a look at what it finds. The zero entry is none.
type entry uint64

const entryBytes = 8

func newEntry(mixed uint64, number uint32) entry { return entry(mixed>>32<<32 | uint64(number)) }

func (e entry) number() uint32 { return uint32(e) }

// of reports whether the entry may be the mixed key's.
func (e entry) of(mixed uint64) bool { return uint64(e)>>32 == mixed>>32 }

// segmentCells is the size of a segment: as many as a uint8 tells apart.
const segmentCells = 256

type cells [segmentCells]entry

// place returns where in its segment a mixed key, or an entry, belongs.
func place(mixed uint64) uint8 { return uint8(mixed >> 32) }

// put puts e where it belongs or behind that, and reports whether there was
// room.
func (p *cells) put(e entry) bool {
	home := place(uint64(e))
	for i := home; ; {
		if p[i] == 0 {
			p[i] = e
			return true
		}
		if i++; i == home {
			return false
		}
	}
}

// free empties a cell and fills the gap with later entries of its run.
func (p *cells) free(gap uint8) {
	for i, start := gap+1, gap; p[i] != 0 && i != start; i++ {
		// An entry may move into the gap unless its own place lies behind it.
		if i-place(uint64(p[i])) >= i-gap {
			p[gap] = p[i]
			gap = i
		}
	}
	p[gap] = 0
}

// room returns the most entries that may be in so many segments: five
// eighths of 2^k, and 32 more for each further one. So when 2^k are to become twice
// as many, there is one more for each 32 entries; the last to be divided is six
// eighths full, and then all are three eighths full.
func room(segments int) int {
	return segmentCells / 8 * (segments + 4*floor2(segments))
}

// resized sets count and what follows from it. Segments are taken back when a
// fifth of the entries for which they were added is gone.
func (s *segments) resized(count int) {
	s.count, s.most, s.least = count, room(count), 0
	if count > 1 {
		s.least = room(count-1) / 5 * 4
	}
}

// home returns the segment for a mixed key. There must be one.
func (s *segments) home(mixed uint64) *cells { return s.first[mixed>>(s.shift&63)] }

// find returns where the entry is that may be the mixed key's and of whose number
// is says that it is the one: nil if there is none.
func (s *segments) find(mixed uint64, is func(number uint32) bool) (*cells, uint8) {
	if s.n == 0 {
		return nil, 0
	}
	home := s.home(mixed)
	for p := home; p != nil; p = s.next(home, p) {
		i := place(mixed)
		for range segmentCells {
			e := p[i]
			if e == 0 {
				break
			}
			if e.of(mixed) && is(e.number()) {
				return p, i
			}
			i++
		}
	}
	return nil, 0
}

// add puts in an entry that is absent.
func (s *segments) add(e entry) {
	if s.n == s.most {
		s.split()
	}
	s.n++
	s.put(e)
}

// put finds a place for an entry.
func (s *segments) put(e entry) {
	if home := s.home(uint64(e)); !home.put(e) {
		s.spill(home, e)
	}
}

// remove takes out entry i of p.
func (s *segments) remove(p *cells, i uint8) {
	home := s.home(uint64(p[i]))
	p.free(i)
	if s.spills != nil {
		s.refill(home, p)
	}
	if s.n--; s.n == 0 {
		*s = segments{}
	} else if s.n < s.least {
		s.merge()
	}
}
