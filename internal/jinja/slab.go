package jinja

// Slab hands out the small maps and lists of one conversation from a few
// larger allocations, all of which live as long as any of them is in use. The
// zero Slab is ready; it is not safe for concurrent use.
type Slab struct {
	maps    []Map
	lists   []list
	entries []Entry
	vals    []Value
	grown   int
}

// slabMax is the largest piece, in elements, that comes out of a chunk.
const slabMax = 64

// NewMap returns an empty map with room for n entries.
func (s *Slab) NewMap(n int) *Map {
	m := &take(&s.maps, 1, s.chunk())[:1][0]
	m.entries = take(&s.entries, n, s.chunk())
	return m
}

func (s *Slab) newList(items []Value) *list {
	l := &take(&s.lists, 1, s.chunk())[:1][0]
	l.items = append(take(&s.vals, len(items), s.chunk()), items...)
	return l
}

// chunk returns the size of the next chunk: small at first, so that a short
// conversation does not pay for a long one.
func (s *Slab) chunk() int {
	if s.grown < 2*slabMax {
		s.grown += 8
	}
	return s.grown
}

// take cuts room for n elements from a chunk.
func take[T any](chunk *[]T, n, size int) []T {
	if n > slabMax {
		return make([]T, 0, n)
	}
	if len(*chunk) < n {
		*chunk = make([]T, max(n, size))
	}
	out := (*chunk)[:0:n]
	*chunk = (*chunk)[n:]
	return out
}
