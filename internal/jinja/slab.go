package jinja

// Slab hands out the small maps and lists of one conversation from a few
// larger allocations. The zero Slab is ready; it is not safe for concurrent
// use.
type Slab struct {
	maps    chunks[Map]
	lists   chunks[list]
	entries chunks[Entry]
	vals    chunks[Value]

	valStack []Value // unfinished arrays of the decoder
	entStack []Entry // unfinished objects of the decoder
}

const (
	slabMax   = 64  // the largest piece, in elements, that comes from a chunk
	chunkMin  = 32  // elements of the first chunk
	chunkMax  = 512 // elements of later ones
	slabKept  = 8   // chunks of each type that survive Reset
	stackKept = 1024
)

// NewMap returns an empty map with room for n entries.
func (s *Slab) NewMap(n int) *Map {
	m := &s.maps.take(1)[:1][0]
	m.entries = s.entries.take(n)
	return m
}

// Values returns a slice of n zero values.
func (s *Slab) Values(n int) []Value { return s.vals.take(n)[:n] }

// List returns a list that owns items.
func (s *Slab) List(items []Value) Value {
	l := &s.lists.take(1)[:1][0]
	l.items = items
	return Value{kind: List, ptr: pointer(l)}
}

// Reset forgets everything that came from the slab, so that its memory can be
// used again. Values made with it must not be used any more.
func (s *Slab) Reset() {
	s.maps.reset()
	s.lists.reset()
	s.entries.reset()
	s.vals.reset()
	s.valStack, s.entStack = emptied(s.valStack), emptied(s.entStack)
}

// emptied clears a stack and keeps its memory unless that is large.
func emptied[T any](stack []T) []T {
	if cap(stack) > stackKept {
		return nil
	}
	clear(stack[:cap(stack)])
	return stack[:0]
}

// chunks is a list of arrays from which pieces are cut in order.
type chunks[T any] struct {
	all  [][]T
	cur  int // the chunk that is being cut
	used int // elements of it that are in use
}

// take returns an empty slice with room for n elements, which are zero.
func (c *chunks[T]) take(n int) []T {
	if n > slabMax {
		return make([]T, 0, n)
	}
	for ; c.cur < len(c.all); c.cur, c.used = c.cur+1, 0 {
		if a := c.all[c.cur]; len(a)-c.used >= n {
			c.used += n
			return a[c.used-n : c.used-n : c.used]
		}
	}
	size := chunkMin
	if len(c.all) > 0 {
		size = min(2*len(c.all[len(c.all)-1]), chunkMax)
	}
	a := make([]T, max(size, n))
	c.all = append(c.all, a)
	c.used = n
	return a[0:0:n]
}

func (c *chunks[T]) reset() {
	for i, a := range c.all[:min(c.cur+1, len(c.all))] {
		if i == c.cur {
			a = a[:c.used]
		}
		clear(a)
	}
	if len(c.all) > slabKept {
		clear(c.all[slabKept:])
		c.all = c.all[:slabKept]
	}
	c.cur, c.used = 0, 0
}
