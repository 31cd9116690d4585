package fleet

import "github.com/expediterhq/expediter/registry"

// kind says what happens at an event.
type kind uint8

const (
	arriveDue       kind = iota // a request that waited for another comes
	arriveAtReplica             // it reaches a replica
	stepEnds
	firstToken    // the gateway sees a request's first token
	finished      // the gateway sees a request's end
	broken        // the gateway sees a request's connection break or refused
	firstTokenDue // a request must have its first token by now
	deadline      // a request must have left the line by now
	scrape        // a gateway asks all replicas
	reported      // one replica's answer arrives
	changeDue
	joinDue
	leaveDue
	sampleDue
	silenceDue // requests on a replica that hung must have got a token by now
)

// event is one entry of the calendar. Attempt and epoch say which of several
// lives of a job or a replica is meant; events of an earlier life are void.
type event struct {
	at      int64
	seq     uint64
	kind    kind
	who     int32 // replica, gateway, change or request
	attempt int32
	job     *job
	answer  *answer
}

// answer is a replica's answer to a scrape.
type answer struct {
	gateway int
	ok      bool // it was answered
	state   registry.State
	asked   registry.Load
}

// calendar is a heap of events by time, then by order of entry.
type calendar struct {
	heap []event
	seq  uint64
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (c *calendar) push(e event) {
	c.seq++
	e.seq = c.seq
	c.heap = append(c.heap, e)
	h := c.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (c *calendar) pop() event {
	h := c.heap
	top := h[0]
	n := len(h) - 1
	h[0] = h[n]
	h[n] = event{}
	c.heap = h[:n]
	h = c.heap
	for i := 0; ; {
		least := i
		for k := 4*i + 1; k <= 4*i+4 && k < n; k++ {
			if h[k].before(&h[least]) {
				least = k
			}
		}
		if least == i {
			return top
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
