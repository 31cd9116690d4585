package quota

import "time"

// account is one tenant in a Memory. Its shard's mutex guards it.
type account struct {
	tenant  string
	ids     map[string]*entry
	held    []*entry // those that are live: a heap, the first to expire on top
	names   map[string]int32
	windows []window
	took    [MaxWindows]int32 // of the call under way: where its windows are
	charged int64
}

type window struct {
	meter
	name string
	refs int // entries that took from it
}

// bucketsKept is how many windows an account has before it looks for unused
// ones to replace.
const bucketsKept = 32

// look finds the reservation's windows, makes those that are missing and drains
// them to now.
func (a *account) look(r *Reservation, now int64) {
	for i := range r.Limit.Windows {
		w := &r.Limit.Windows[i]
		at, ok := a.names[w.Name]
		if !ok {
			at = a.add(w.Name, a.took[:i], now)
		}
		m := &a.windows[at]
		m.drain(now)
		m.rate = w.Rate
		a.took[i] = at
	}
}

func (a *account) add(name string, busy []int32, now int64) int32 {
	at := len(a.windows)
	if at >= bucketsKept {
		for i := range a.windows {
			if w := &a.windows[i]; w.refs == 0 && !contains(busy, int32(i)) {
				if w.drain(now); w.spent == 0 {
					delete(a.names, w.name)
					at = i
					break
				}
			}
		}
	}
	if at == len(a.windows) {
		a.windows = append(a.windows, window{})
	}
	a.windows[at] = window{name: name, meter: meter{at: now}}
	a.names[name] = int32(at)
	return int32(at)
}

func contains(s []int32, v int32) bool {
	for _, x := range s {
		if x == v {
			return true
		}
	}
	return false
}

// room looks up the windows and says whether the reservation fits now.
func (a *account) room(r *Reservation, now int64) error {
	a.look(r, now)
	var refusal LimitError
	for i := range r.Limit.Windows {
		w := &r.Limit.Windows[i]
		d := a.windows[a.took[i]].wait(w, r.Cost)
		if d < 0 {
			return &LimitError{Verdict: OverQuota, ID: r.ID, Window: w.Name, Limit: w.Burst, Cost: r.Cost}
		}
		if d > refusal.After {
			refusal = LimitError{Verdict: OverQuota, ID: r.ID, Window: w.Name, Limit: w.Burst, Cost: r.Cost, After: d}
		}
	}
	if refusal.After > 0 {
		e := refusal
		return &e
	}
	if c := r.Limit.Concurrency; c > 0 && len(a.held) >= c {
		return &LimitError{Verdict: OverConcurrency, ID: r.ID, Limit: int64(c), Cost: r.Cost, After: time.Second}
	}
	return nil
}

// drain brings the windows that e took from to now.
func (a *account) drain(e *entry, now int64) {
	for _, at := range e.took {
		a.windows[at].drain(now)
	}
}

// charge takes n tokens from the windows of e, or gives them back.
func (a *account) charge(e *entry, n float64) {
	for _, at := range e.took {
		a.windows[at].add(n)
	}
}

func (a *account) balance(now int64) Balance {
	b := Balance{Running: len(a.held), Charged: a.charged}
	for _, e := range a.held {
		b.Reserved += e.cost
	}
	for i := range a.windows {
		w := &a.windows[i]
		w.drain(now)
		b.Windows = append(b.Windows, Level{Name: w.name, Spent: w.spent})
	}
	return b
}

// forget drops the ids that have been remembered long enough.
func (s *shard) forget(now int64) {
	s.settled.trim(s, now-int64(Remember))
	s.expired.trim(s, now-int64(RememberExpired))
}

// expire ends the reservations of a that nobody renewed in time.
func (s *shard) expire(a *account, now int64) {
	for len(a.held) > 0 && a.held[0].until <= now {
		e := a.held[0]
		a.unhold(e)
		a.drain(e, now)
		a.charge(e, float64(e.used-e.cost))
		a.charged += e.used
		e.state, e.at = entryExpired, now
		s.expired.push(e)
	}
}

// idle reports whether nothing would be lost with a.
func (s *shard) idle(a *account, now int64) bool {
	s.expire(a, now)
	if len(a.ids) > 0 {
		return false
	}
	for i := range a.windows {
		w := &a.windows[i]
		if w.drain(now); w.spent > 0 {
			return false
		}
	}
	return true
}
