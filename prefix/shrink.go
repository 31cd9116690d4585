package prefix

import "slices"

// freed marks the shard of a node that holds no key. Such nodes are in a list of
// their own.
const freed = ^uint32(0)

// release puts node i, which is in neither list, into that of the free ones.
func (q *recent) release(i uint32) {
	nd := q.node(i)
	nd.shard = freed
	nd.prev, nd.next = 0, q.free
	if q.free != 0 {
		q.node(q.free).prev = i
	}
	q.free = i
}

// reuse takes node i out of the list of the free ones.
func (q *recent) reuse(i uint32) {
	nd := q.node(i)
	if nd.prev != 0 {
		q.node(nd.prev).next = nd.next
	} else {
		q.free = nd.next
	}
	if nd.next != 0 {
		q.node(nd.next).prev = nd.prev
	}
}

// shrink frees the memory of all nodes but so many, of which there must not be
// fewer than keys. It takes as long as there are nodes to go.
func (q *recent) shrink(most uint32) {
	for q.made > most {
		last := q.made
		if q.node(last).shard == freed {
			q.reuse(last)
		} else {
			to := q.free
			q.reuse(to)
			q.move(last, to)
		}
		if q.made--; q.made%pageNodes == 0 {
			q.dropPage()
		}
	}
}

// move makes node to what node from is.
func (q *recent) move(from, to uint32) {
	nd := q.node(from)
	p, at := q.entryOf(from)
	p[at] = entry{nd.key>>32<<32 | uint64(to)}
	*q.node(to) = *nd
	if nd.prev != 0 {
		q.node(nd.prev).next = to
	} else {
		q.first = to
	}
	if nd.next != 0 {
		q.node(nd.next).prev = to
	} else {
		q.last = to
	}
}

// dropPage frees the last page, and now and then a part of the list of pages.
func (q *recent) dropPage() {
	n := len(q.pages) - 1
	q.pages[n] = nil
	q.pages = q.pages[:n]
	if cap(q.pages) > 2*n+8 {
		q.pages = slices.Clone(q.pages)
	}
}
