package redisquota

import (
	"context"
	"sync"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// debt is a settlement that has not reached Redis.
type debt struct {
	r     quota.Reservation
	used  int64
	since time.Time
	sent  bool // it may have reached Redis all the same
}

// backlog holds debts, bounded.
type backlog struct {
	mu      sync.Mutex
	debts   []debt
	out     int // being delivered
	max     int
	dropped uint64
	signal  chan struct{} // holds one
}

// add keeps d, and reports whether there was room.
func (b *backlog) add(d debt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.debts)+b.out >= b.max {
		b.dropped++
		return false
	}
	b.debts = append(b.debts, d)
	return true
}

func (b *backlog) wake() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

// take removes up to n debts; back returns those that were not delivered.
func (b *backlog) take(n int) []debt {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, len(b.debts))
	ds := append([]debt(nil), b.debts[:n]...)
	b.debts = b.debts[n:]
	if len(b.debts) == 0 {
		b.debts = nil
	}
	b.out += n
	return ds
}

func (b *backlog) back(taken int, ds []debt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out -= taken
	b.debts = append(b.debts, ds...)
}

func (b *backlog) size() (pending int, dropped uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.debts) + b.out, b.dropped
}

// owe keeps a settlement for later: for at once if Redis seems to be there.
func (s *Store) owe(r *quota.Reservation, used int64, sent bool) bool {
	kept := s.backlog.add(debt{r: *r, used: used, since: s.cfg.Now(), sent: sent})
	if kept && !s.away() {
		s.backlog.wake()
	}
	return kept
}

// deliver empties the backlog whenever it can, until the store closes.
func (s *Store) deliver() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.backlog.signal:
		case <-s.closing:
			return
		case <-tick.C:
			if n, _ := s.backlog.size(); n == 0 {
				continue
			}
		}
		for s.deliverSome(s.ctx) {
		}
	}
}

// deliverSome tries a part of the backlog and reports whether it is worth going
// on at once: all of the part was delivered and there is more.
func (s *Store) deliverSome(ctx context.Context) bool {
	ds := s.backlog.take(256)
	ops := make([]*op, len(ds))
	now := s.cfg.Now()
	for i := range ds {
		d := &ds[i]
		// Redis remembers a settled id for a while. After half of it, one that may
		// have arrived is not taken for new.
		stale := d.sent && now.Sub(d.since) > quota.Remember/2
		o := s.settleOp(&d.r, d.used, stale)
		if s.send(o, s.cfg.Timeout) == nil {
			ops[i] = o
		}
	}
	var failed []debt
	for i, o := range ops {
		if o == nil {
			failed = append(failed, ds[i])
			continue
		}
		r := s.wait(ctx, o, nil)
		if _, err := r.parse(); err != nil {
			ds[i].sent = ds[i].sent || r.sent
			failed = append(failed, ds[i])
		}
	}
	s.backlog.back(len(ds), failed)
	return len(failed) == 0 && len(ds) == 256
}
