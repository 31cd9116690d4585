package prefix

// recent is a list of block hashes in order of last use, with a hash table
// over it. Nodes live in pages, so that growing copies nothing but the table.
// Node numbers start at 1; 0 is none. The zero recent is empty; mul must be
// odd and is secret for the same reason as index.mul.
type recent struct {
	pages []*[pageNodes]node
	table []uint32 // node numbers; size is a power of two
	made  uint32   // nodes handed out so far
	free  uint32   // list of given back nodes, by next
	first uint32   // most recently used
	last  uint32
	n     int
	mul   uint64
	sink  uint32 // keeps the loads of fetch
}

type node struct {
	key        uint64
	prev, next uint32
	stamp      uint32
	shard      uint32 // the plane's shard that has the key
}

const (
	pageNodes = 512
	nodeBytes = 24
)

func (q *recent) node(i uint32) *node { return &q.pages[(i-1)/pageNodes][(i-1)%pageNodes] }

// find returns the number of key's node, or 0.
func (q *recent) find(key uint64) uint32 {
	if q.n == 0 {
		return 0
	}
	mask := len(q.table) - 1
	for p := place(key*q.mul, len(q.table)); ; p = (p + 1) & mask {
		i := q.table[p]
		if i == 0 || q.node(i).key == key {
			return i
		}
	}
}

// fetch looks at where keys are, all at once, so that the memory for one does
// not have to be waited for before the next.
func (q *recent) fetch(keys []uint64) {
	if len(q.table) == 0 {
		return
	}
	for _, key := range keys {
		q.sink ^= q.table[place(key*q.mul, len(q.table))]
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
	nd := q.node(i)
	nd.stamp = stamp
	nd.prev, nd.next = 0, q.first
	if q.first != 0 {
		q.node(q.first).prev = i
	} else {
		q.last = i
	}
	q.first = i
	return added
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
	q.enter(i)
	q.n++
	return i
}

func (q *recent) enter(i uint32) {
	mask := len(q.table) - 1
	p := place(q.node(i).key*q.mul, len(q.table))
	for q.table[p] != 0 {
		p = (p + 1) & mask
	}
	q.table[p] = i
}

func (q *recent) grow() {
	q.table = make([]uint32, max(firstCells, 2*len(q.table)))
	for i := q.first; i != 0; i = q.node(i).next {
		q.enter(i)
	}
}

// evict removes the least recently used key and returns it with its shard. The
// list must not be empty.
func (q *recent) evict() (key uint64, shard uint32) {
	i := q.last
	key, shard = q.node(i).key, q.node(i).shard
	q.unlink(i)
	q.leave(i)
	q.node(i).next = q.free
	q.free = i
	q.n--
	return key, shard
}

// leave takes node i out of the table and closes the gap.
func (q *recent) leave(i uint32) {
	mask := len(q.table) - 1
	gap := place(q.node(i).key*q.mul, len(q.table))
	for q.table[gap] != i {
		gap = (gap + 1) & mask
	}
	for p := (gap + 1) & mask; q.table[p] != 0; p = (p + 1) & mask {
		home := place(q.node(q.table[p]).key*q.mul, len(q.table))
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
	return int64(len(q.pages))*(pageNodes*nodeBytes+8) + 4*int64(len(q.table))
}
