package prefix

// recent is a list of keys in order of last use, with a hash table
// over it. Nodes live in pages, so that growing copies nothing but the list of
// pages. Node numbers start at 1; 0 is none. Keys are mixed. The zero recent is
// empty.
type recent struct {
	table segments[entry]
	pages []*[pageNodes]node
	made  uint32 // nodes handed out so far
	free  uint32 // list of nodes without a key
	first uint32 // most recently used
	last  uint32
	n     int
}

// entry is a node's number below the upper half of its key, which tells
// its place and, nearly always, other keys from it without a look at the node.
type entry [1]uint64

func (e entry) node() uint32 { return uint32(e[0]) }

// of reports whether the entry may be key's.
func (e entry) of(key uint64) bool { return e[0]>>32 == key>>32 }

type node struct {
	key        uint64
	prev, next uint32
	stamp      uint32
	shard      uint32 // the plane's shard that has the key
}

const (
	pageNodes  = 512
	nodeBytes  = 24
	entryBytes = 8
)

func (q *recent) node(i uint32) *node { return &q.pages[(i-1)/pageNodes][(i-1)%pageNodes] }

// find returns the number of key's node, or 0.
func (q *recent) find(key uint64) uint32 {
	if q.n == 0 {
		return 0
	}
	home, i := q.table.home(key), place(key)
	for range segmentCells {
		e := home[i]
		if e == (entry{}) {
			return 0
		}
		if e.of(key) && q.node(e.node()).key == key {
			return e.node()
		}
		i++
	}
	for p := q.table.next(home, home); p != nil; p = q.table.next(home, p) {
		for _, e := range p {
			if e.of(key) && e != (entry{}) && q.node(e.node()).key == key {
				return e.node()
			}
		}
	}
	return 0
}

// absent returns how many of keys have no node.
func (q *recent) absent(keys []uint64) (n int) {
	for _, key := range keys {
		if q.find(key) == 0 {
			n++
		}
	}
	return n
}

// renew makes those of keys that are there the most recently used.
func (q *recent) renew(keys []uint64, stamp uint32) {
	for _, key := range keys {
		if i := q.find(key); i != 0 {
			q.unlink(i)
			q.lead(i, stamp)
		}
	}
}

// touch makes key the most recently used and reports whether it was absent.
func (q *recent) touch(key uint64, stamp, shard uint32) (added bool) {
	i := q.find(key)
	if i != 0 {
		q.unlink(i)
	} else {
		i = q.insert(key)
		q.node(i).shard = shard
		added = true
	}
	q.lead(i, stamp)
	return added
}

// lead puts node i, which is not in the list, at its head.
func (q *recent) lead(i, stamp uint32) {
	nd := q.node(i)
	nd.stamp = stamp
	nd.prev, nd.next = 0, q.first
	if q.first != 0 {
		q.node(q.first).prev = i
	} else {
		q.last = i
	}
	q.first = i
}

func (q *recent) unlink(i uint32) {
	nd := q.node(i)
	if nd.prev != 0 {
		q.node(nd.prev).next = nd.next
	} else {
		q.first = nd.next
	}
	if nd.next != 0 {
		q.node(nd.next).prev = nd.prev
	} else {
		q.last = nd.prev
	}
}

// insert puts key into the table, not yet into the list.
func (q *recent) insert(key uint64) uint32 {
	i := q.free
	if i != 0 {
		q.reuse(i)
	} else {
		if q.made%pageNodes == 0 {
			q.pages = append(q.pages, new([pageNodes]node))
		}
		q.made++
		i = q.made
	}
	q.node(i).key = key
	q.table.add(entry{key>>32<<32 | uint64(i)})
	q.n++
	return i
}

// older returns how many of the n least recently used keys are not newer than
// stamp.
func (q *recent) older(stamp uint32, n int) (k int) {
	for i := q.last; k < n && i != 0 && int32(q.node(i).stamp-stamp) <= 0; i = q.node(i).prev {
		k++
	}
	return k
}

// evicted is a key that was taken out, and the shard that has it.
type evicted struct {
	key   uint64
	shard uint32
}

// evict removes the least recently used keys, at most as many as are left or
// as out has room for, and returns out with them.
func (q *recent) evict(out []evicted) []evicted {
	out = out[:min(len(out), q.n)]
	i := q.last
	for j := range out {
		nd := q.node(i)
		out[j] = evicted{nd.key, nd.shard}
		q.table.fetch([]uint64{nd.key})
		i = nd.prev
	}
	for range out {
		i := q.last
		q.unlink(i)
		q.leave(i)
		q.release(i)
		q.n--
	}
	return out
}

// leave takes node i out of the table.
func (q *recent) leave(i uint32) { q.table.remove(q.entryOf(i)) }

// entryOf returns where the table has node i.
func (q *recent) entryOf(i uint32) (*cells[entry], uint8) {
	key := q.node(i).key
	home := q.table.home(key)
	for p := home; ; p = q.table.next(home, p) {
		at := place(key)
		for range segmentCells {
			if p[at].node() == i {
				return p, at
			}
			at++
		}
	}
}

func (q *recent) bytes() int64 {
	return int64(len(q.pages))*pageNodes*nodeBytes + int64(cap(q.pages))*8 + q.table.bytes()
}
