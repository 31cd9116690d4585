package quota

type entryState uint8

const (
	entryNew     entryState = iota
	entryLive               // holds cost tokens and a slot
	entryExpired            // ran out: used tokens stay charged
	entrySettled
)

// entry is one reservation's state, live or remembered.
type entry struct {
	id         string
	a          *account
	state      entryState
	cost, used int64
	until      int64   // live: when the lease ends, in nanoseconds
	at         int64   // ended: when, in nanoseconds
	pos        int     // live: place in the account's heap
	took       []int32 // the account's windows it took from
	prev, next *entry  // ended: neighbours in its fifo
	in         *fifo
}

// entry makes a new entry for r in a, whose windows a.took names.
func (s *shard) entry(a *account, r *Reservation) *entry {
	e := s.free
	if e == nil {
		e = &entry{}
	} else {
		s.free = e.next
	}
	*e = entry{id: r.ID, a: a, took: append(e.took[:0], a.took[:len(r.Limit.Windows)]...)}
	for _, at := range e.took {
		a.windows[at].refs++
	}
	a.ids[r.ID] = e
	return e
}

// live makes e hold r's cost until its lease ends. What is known to be used
// only grows.
func (e *entry) live(now int64, r *Reservation) {
	e.state, e.cost, e.used, e.until = entryLive, r.Cost, max(e.used, r.Used), now+int64(r.Term())
	e.a.hold(e)
}

// held is what e has taken from its windows.
func (e *entry) held() int64 {
	switch e.state {
	case entryLive:
		return e.cost
	case entryExpired:
		return e.used
	}
	return 0
}

// final is what e has added to the account's charges.
func (e *entry) final() int64 {
	if e.state == entryExpired {
		return e.used
	}
	return 0
}

func (e *entry) refuse(r *Reservation) error {
	v := Duplicate
	if e.state != entryLive {
		v = Settled
	}
	return &LimitError{Verdict: v, ID: r.ID, Cost: r.Cost}
}

// leave takes e out of the heap or fifo it is in.
func (s *shard) leave(e *entry) {
	if e.state == entryLive {
		e.a.unhold(e)
	}
	if e.in != nil {
		e.in.remove(e)
	}
}

// drop forgets e.
func (s *shard) drop(e *entry) {
	delete(e.a.ids, e.id)
	for _, at := range e.took {
		e.a.windows[at].refs--
	}
	*e = entry{took: e.took[:0], next: s.free}
	s.free = e
}

// hold puts e into the heap.
func (a *account) hold(e *entry) {
	e.pos = len(a.held)
	a.held = append(a.held, e)
	a.up(e.pos)
}

// unhold takes e out of the heap.
func (a *account) unhold(e *entry) {
	i, last := e.pos, len(a.held)-1
	a.held[i] = a.held[last]
	a.held[i].pos = i
	a.held[last] = nil
	a.held = a.held[:last]
	if i < last {
		a.down(i)
		a.up(i)
	}
}

func (a *account) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if a.held[p].until <= a.held[i].until {
			return
		}
		a.swap(i, p)
		i = p
	}
}

func (a *account) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(a.held) {
			return
		}
		if c+1 < len(a.held) && a.held[c+1].until < a.held[c].until {
			c++
		}
		if a.held[i].until <= a.held[c].until {
			return
		}
		a.swap(i, c)
		i = c
	}
}

func (a *account) swap(i, j int) {
	a.held[i], a.held[j] = a.held[j], a.held[i]
	a.held[i].pos, a.held[j].pos = i, j
}

// fifo is a list of ended entries, the oldest first.
type fifo struct {
	head, tail *entry
	n, max     int
}

func (f *fifo) push(e *entry) {
	e.in, e.prev, e.next = f, f.tail, nil
	if f.tail == nil {
		f.head = e
	} else {
		f.tail.next = e
	}
	f.tail = e
	f.n++
}

func (f *fifo) remove(e *entry) {
	if e.prev == nil {
		f.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		f.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.in, e.prev, e.next = nil, nil, nil
	f.n--
}

// trim drops up to eight entries that ended at or before the given time or are
// beyond max.
func (f *fifo) trim(s *shard, before int64) {
	for range 8 {
		e := f.head
		if e == nil || e.at > before && f.n <= f.max {
			return
		}
		f.remove(e)
		s.drop(e)
	}
}
