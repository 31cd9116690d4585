package prefix

// runs are the blocks of a slot in the order of their last use. A run is
// a part of a record that was used at one time; of those of the same record one
// that begins later was not used later. Runs live in pages, so that growing copies
// nothing but the list of pages. Their numbers start at 1; 0 is none. A table finds
// the first run of a record by the record's key. The zero runs are empty.
type runs struct {
	table segments
	pages []*[pageRuns]run
	made  uint32 // runs handed out so far
	free  uint32 // list of runs that are not used
	first uint32 // most recently used
	last  uint32
	taken int // runs that are used
	n     int // blocks
}

type run struct {
	record     uint32
	hash       uint32 // upper half of the record's key
	prev, next uint32
	stamp      uint32
	later      uint32 // the next run of the record
	from, to   uint8  // of the record's blocks; 0 if the run is not used
	shard      uint8
}

const (
	pageRuns = 128
	runBytes = 28
)

func (q *runs) run(i uint32) *run { return &q.pages[(i-1)/pageRuns][(i-1)%pageRuns] }

// find returns the number of the first run of a record, or 0.
func (q *runs) find(record uint32, mixed uint64) uint32 {
	p, i := q.table.find(mixed, func(number uint32) bool { return q.run(number).record == record })
	if p == nil {
		return 0
	}
	return p[i].number()
}

// touch makes the blocks of p the most recently used. It may take one run more
// than there are.
func (q *runs) touch(p piece, stamp uint32, shard uint8) {
	i := q.find(p.record, p.mixed)
	switch {
	case i == 0:
		i = q.make()
		*q.run(i) = run{record: p.record, hash: uint32(p.mixed >> 32), to: p.n, shard: shard}
		q.table.add(newEntry(p.mixed, i))
		q.n += int(p.n)
	case p.n < q.run(i).to:
		q.split(i, p.n)
	default:
		q.unlink(i)
		q.extend(i, p.n)
	}
	q.lead(i, stamp)
}

// split puts a new run of what run i has from block n on into its place, and
// leaves it out of the list.
func (q *runs) split(i uint32, n uint8) {
	j := q.make()
	r, rest := q.run(i), q.run(j)
	*rest = *r
	rest.from = n
	r.to, r.later = n, j
	q.relink(j)
}

// extend makes run i, the first of its record, end at block n, no earlier than it
// does. What others of the record have before that is no longer theirs.
func (q *runs) extend(i uint32, n uint8) {
	r := q.run(i)
	held := r.to
	for r.later != 0 {
		l := q.run(r.later)
		held = l.to
		if l.to > n {
			l.from = max(l.from, n)
			break
		}
		gone := r.later
		q.unlink(gone)
		r.later = l.later
		q.release(gone)
	}
	if n > held {
		q.n += int(n - held)
	}
	r.to = n
}

// lead puts run i, which is not in the list, at its head.
func (q *runs) lead(i, stamp uint32) {
	r := q.run(i)
	r.stamp = stamp
	r.prev, r.next = 0, q.first
	q.relink(i)
}

// unlink takes run i out of the list.
func (q *runs) unlink(i uint32) {
	r := q.run(i)
	if r.prev != 0 {
		q.run(r.prev).next = r.next
	} else {
		q.first = r.next
	}
	if r.next != 0 {
		q.run(r.next).prev = r.prev
	} else {
		q.last = r.prev
	}
}

// relink makes run i what its neighbours in the list have beside them.
func (q *runs) relink(i uint32) {
	r := q.run(i)
	if r.prev != 0 {
		q.run(r.prev).next = i
	} else {
		q.first = i
	}
	if r.next != 0 {
		q.run(r.next).prev = i
	} else {
		q.last = i
	}
}

// make returns a run that is not used.
func (q *runs) make() uint32 {
	q.taken++
	if i := q.free; i != 0 {
		q.reuse(i)
		return i
	}
	if q.made%pageRuns == 0 {
		q.pages = append(q.pages, new([pageRuns]run))
	}
	q.made++
	return q.made
}

// evicted are blocks of a record that a slot no longer has.
type evicted struct {
	record   uint32
	from, to uint8
	shard    uint8
}

// evict takes out up to n of the least recently used blocks, no more than one run
// has. There must be some.
func (q *runs) evict(n int) evicted {
	i := q.last
	r := q.run(i)
	n = min(n, int(r.to-r.from))
	e := evicted{r.record, r.to - uint8(n), r.to, r.shard}
	q.n -= n
	if e.from == r.from {
		q.unlink(i)
		q.leave(i)
		q.release(i)
	} else {
		r.to = e.from
	}
	return e
}

// leave makes sure that nothing of its record leads to run i, which is the last
// of it.
func (q *runs) leave(i uint32) {
	if q.run(i).from == 0 {
		q.table.remove(q.entryOf(i))
	} else {
		q.before(i).later = 0
	}
}

// entryOf returns where the table has run i, the first of its record.
func (q *runs) entryOf(i uint32) (*cells, uint8) {
	return q.table.find(uint64(q.run(i).hash)<<32, func(number uint32) bool { return number == i })
}

// before returns the run of the record before run i, which is not the first.
func (q *runs) before(i uint32) *run {
	r := q.run(i)
	b := q.run(q.find(r.record, uint64(r.hash)<<32))
	for b.later != i {
		b = q.run(b.later)
	}
	return b
}

func (q *runs) bytes() int64 {
	return int64(len(q.pages))*pageRuns*runBytes + int64(cap(q.pages))*8 + q.table.bytes()
}
