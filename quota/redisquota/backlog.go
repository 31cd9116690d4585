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

	tries   int       // deliveries that failed
	next    time.Time // while it is parked: when to try again
	refused *KeyError // by the last delivery
	from    time.Time // when it was refused first
}

// backlog holds debts, bounded.
type backlog struct {
	mu      sync.Mutex
	debts   []debt
	parked  []debt // wait for their next time
	out     int    // being delivered
	max     int
	dropped uint64
	signal  chan struct{} // holds one

	lost map[string]*loss // by tenant; not told of yet
	told time.Time
}

// add keeps d, and reports whether there was room.
func (b *backlog) add(d debt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.debts)+len(b.parked)+b.out >= b.max {
		b.dropped++
		return false
	}
	if d.next.IsZero() {
		b.debts = append(b.debts, d)
	} else {
		b.parkLocked(&d, d.next)
	}
	return true
}

func (b *backlog) wake() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

// take removes up to n debts; back returns those that were not delivered, to be
// tried again or parked.
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

func (b *backlog) back(taken int, again, park []debt, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out -= taken
	b.debts = append(b.debts, again...)
	for i := range park {
		b.parkLocked(&park[i], now)
	}
}

func (b *backlog) size() (pending int, dropped uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.debts) + len(b.parked) + b.out, b.dropped
}

// owe keeps a settlement that failed, or the taking back of a Reserve that did, for
// later: for at once if Redis seems to be there.
func (s *Store) owe(r *quota.Reservation, used int64, sent bool, err error) bool {
	now, away := s.cfg.Now(), s.away()
	d := debt{r: *r, used: used, since: now}
	parked := d.failed(err, sent, away, now)
	kept := s.backlog.add(d)
	if kept && !away && !parked {
		s.backlog.wake()
	}
	return kept
}

// deliver empties the backlog whenever it can, until the store closes.
func (s *Store) deliver() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var unparked time.Time
	for {
		select {
		case <-s.backlog.signal:
		case <-s.closing:
			return
		case <-tick.C:
			s.tellLost(false)
			if n, _ := s.backlog.size(); n == 0 {
				continue
			}
		}
		if now := s.cfg.Now(); now.Sub(unparked) >= unparkEvery || now.Before(unparked) {
			unparked = now
			s.backlog.unpark(now, false)
		}
		for s.deliverSome(s.ctx) {
		}
	}
}

// deliverSome tries a part of the backlog and reports whether it is worth going
// on at once: there is more, and nothing of the part failed but what is parked.
func (s *Store) deliverSome(ctx context.Context) bool {
	ds := s.backlog.take(256)
	ops := make([]*op, len(ds))
	lanes := make([]*lane, len(ds))
	now := s.cfg.Now()
	for i := range ds {
		d := &ds[i]
		// Redis remembers a settled id for a while. After half of it, one that may
		// have arrived is not taken for new.
		stale := d.sent && now.Sub(d.since) > quota.Remember/2
		o := s.settleOp(&d.r, d.used, stale)
		o.mute = d.tries >= maxBlame
		lanes[i] = s.lane(o)
		if s.send(o, s.cfg.Timeout) == nil {
			ops[i] = o
		}
	}
	var failed, parked []debt
	for i, o := range ops {
		d := &ds[i]
		if o == nil {
			failed = append(failed, *d)
			continue
		}
		r := s.wait(ctx, o, nil)
		_, err := r.parse()
		if err == nil {
			continue
		}
		if d.failed(err, r.sent, lanes[i].down.Load(), now) {
			parked = append(parked, *d)
		} else {
			failed = append(failed, *d)
		}
	}
	s.backlog.back(len(ds), failed, parked, now)
	return len(failed) == 0 && len(ds) == 256
}
