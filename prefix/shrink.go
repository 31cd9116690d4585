package prefix

import "slices"

// release puts run i, which is not used any more, into the list of the free ones.
func (q *runs) release(i uint32) {
	q.taken--
	*q.run(i) = run{next: q.free}
	if q.free != 0 {
		q.run(q.free).prev = i
	}
	q.free = i
}

// reuse takes run i out of the list of the free ones.
func (q *runs) reuse(i uint32) {
	r := q.run(i)
	if r.prev != 0 {
		q.run(r.prev).next = r.next
	} else {
		q.free = r.next
	}
	if r.next != 0 {
		q.run(r.next).prev = r.prev
	}
}

// shrink frees the memory of all runs but so many, of which there must not be
// fewer than are used. It takes as long as there are runs to go.
func (q *runs) shrink(most uint32) {
	for q.made > most {
		last := q.made
		if q.run(last).to == 0 {
			q.reuse(last)
		} else {
			to := q.free
			q.reuse(to)
			q.move(last, to)
		}
		if q.made--; q.made%pageRuns == 0 {
			q.dropPage()
		}
	}
}

// move makes run to what run from is.
func (q *runs) move(from, to uint32) {
	r := q.run(from)
	if r.from == 0 {
		p, at := q.entryOf(from)
		p[at] = newEntry(uint64(r.hash)<<32, to)
	} else {
		q.before(from).later = to
	}
	*q.run(to) = *r
	q.relink(to)
}

// dropPage frees the last page, and now and then a part of the list of pages.
func (q *runs) dropPage() {
	n := len(q.pages) - 1
	q.pages[n] = nil
	q.pages = q.pages[:n]
	if cap(q.pages) > 2*n+8 {
		q.pages = slices.Clone(q.pages)
	}
}
