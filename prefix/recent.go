package prefix

// recent is a list of block hashes in order of last use, with a hash table
// over it. Nodes live in pages, so that growing copies nothing but the table.
// Node numbers start at 1; 0 is none. The zero recent is empty; mul must be
// odd and is secret for the same reason as index.mul.
type recent struct {
	pages []*[pageNodes]node
	table []entry // size is a power of two
	made  uint32  // nodes handed out so far
	free  uint32  // list of given back nodes, by next
	first uint32  // most recently used
	last  uint32
	n     int
	mul   uint64
	sink  entry // keeps the loads of fetch
}

// entry is a node's number below the upper half of its mixed key, which tells
// its place and, nearly always, other keys from it without a look at the node.
// 0 is none.
type entry uint64

func (e entry) node() uint32 { return uint32(e) }

// at returns the place of the entry in a table of size places.
func (e entry) at(size int) int { return place(uint64(e), size) }

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
	mask, mixed := len(q.table)-1, entry(key*q.mul)
	for p := mixed.at(len(q.table)); ; p = (p + 1) & mask {
		e := q.table[p]
		if e == 0 {
			return 0
		}
		if e>>32 == mixed>>32 && q.node(e.node()).key == key {
			return e.node()
		}
	}
}

// fetch looks at where keys are, all at once, so that the memory for one does
// not have to be waited for before the next.
func (q *recent) fetch(keys []uint64) {
	if len(q.table) == 0 {
		return
	}
	var sum entry
	for _, key := range keys {
		sum += q.table[entry(key*q.mul).at(len(q.table))]
	}
	q.sink = sum
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
	if 4*(q.n+1) > 3*len(q.table) {
		q.grow()
	}
	i := q.free
	if i != 0 {
		q.free = q.node(i).next
	} else {
		if q.made%pageNodes == 0 {
			q.pages = append(q.pages, new([pageNodes]node))
		}
		q.made++
		i = q.made
	}
	q.node(i).key = key
	q.enter(entry(key*q.mul)>>32<<32 | entry(i))
	q.n++
	return i
}

func (q *recent) enter(e entry) {
	mask := len(q.table) - 1
	p := e.at(len(q.table))
	for q.table[p] != 0 {
		p = (p + 1) & mask
	}
	q.table[p] = e
}

func (q *recent) grow() {
	old := q.table
	q.table = make([]entry, max(firstCells, 2*len(old)))
	for _, e := range old {
		if e != 0 {
			q.enter(e)
		}
	}
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
	i, sum := q.last, entry(0)
	for j := range out {
		nd := q.node(i)
		out[j] = evicted{nd.key, nd.shard}
		sum += q.table[entry(nd.key*q.mul).at(len(q.table))] // as fetch does
		i = nd.prev
	}
	q.sink = sum
	for range out {
		i := q.last
		q.unlink(i)
		q.leave(i)
		q.node(i).next = q.free
		q.free = i
		q.n--
	}
	return out
}

// leave takes node i out of the table and closes the gap.
func (q *recent) leave(i uint32) {
	mask := len(q.table) - 1
	gap := entry(q.node(i).key * q.mul).at(len(q.table))
	for q.table[gap].node() != i {
		gap = (gap + 1) & mask
	}
	for p := (gap + 1) & mask; q.table[p] != 0; p = (p + 1) & mask {
		home := q.table[p].at(len(q.table))
		if (p-home)&mask >= (p-gap)&mask {
			q.table[gap] = q.table[p]
			gap = p
		}
	}
	q.table[gap] = 0
}

// compact returns a copy without the room that evicted nodes left.
func (q *recent) compact() recent {
	fresh := recent{mul: q.mul}
	for i := q.last; i != 0; i = q.node(i).prev {
		nd := q.node(i)
		fresh.touch(nd.key, nd.stamp, nd.shard)
	}
	return fresh
}

func (q *recent) bytes() int64 {
	return int64(len(q.pages))*(pageNodes*nodeBytes+8) + entryBytes*int64(len(q.table))
}
