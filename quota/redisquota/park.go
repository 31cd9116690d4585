package redisquota

import (
	"errors"
	"time"
)

const (
	// A debt is parked for parkFirst, then twice as long each time.
	parkFirst   = time.Second
	parkMost    = 30 * time.Second
	unparkEvery = time.Second

	// giveUp is how long a debt is refused for what its tenant's keys hold. To put
	// that right takes an operator, who deletes the windows with the keys: what is
	// delivered after that counts against none of the grants it belongs to.
	giveUp = 10 * time.Minute

	// maxBlame is how often the failure of one debt speaks against Redis.
	maxBlame = 3
)

// failed notes a delivery that failed and reports whether d is parked: when Redis
// answered, and is not away, or when d has failed so often that it may be its own
// doing.
func (d *debt) failed(err error, sent, away bool, now time.Time) (park bool) {
	d.sent = d.sent || sent
	d.refused = nil
	if errors.As(err, &d.refused) && d.from.IsZero() {
		d.from = now
	}
	if d.refused == nil && !sent {
		return false
	}
	d.tries++
	if d.refused == nil && (away || !answered(err)) && d.tries < maxBlame {
		return false
	}
	d.next = now.Add(min(parkFirst<<min(d.tries-1, 10), parkMost))
	return true
}

// loss is what was not charged to a tenant.
type loss struct {
	settlements int
	tokens      int64
	cause       *KeyError
}

// parkLocked keeps d until its next time, or gives it up. Those that Redis refuses
// may take a quarter of the backlog, so that a tenant whose keys are broken leaves
// room for the others when Redis is away.
func (b *backlog) parkLocked(d *debt, now time.Time) {
	if d.refused != nil && (now.Sub(d.from) >= giveUp || len(b.parked) > b.max/4) {
		b.loseLocked(d)
		return
	}
	b.parked = append(b.parked, *d)
}

// unpark lines up the debts whose time has come, or all.
func (b *backlog) unpark(now time.Time, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var kept []debt
	for _, d := range b.parked {
		if all || !now.Before(d.next) {
			b.debts = append(b.debts, d)
		} else {
			kept = append(kept, d)
		}
	}
	b.parked = kept
}

func (b *backlog) loseLocked(d *debt) {
	b.dropped++
	l := b.lost[d.r.Tenant]
	if l == nil {
		l = &loss{}
		if b.lost == nil {
			b.lost = make(map[string]*loss)
		}
		b.lost[d.r.Tenant] = l
	}
	l.settlements++
	l.tokens += d.used
	l.cause = d.refused
}

// losses returns what was given up since it last did, by tenant: every so often, or
// now.
func (b *backlog) losses(now time.Time, force bool) map[string]*loss {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lost) == 0 || !force && now.Sub(b.told) < tellEvery {
		return nil
	}
	lost := b.lost
	b.lost, b.told = nil, now
	return lost
}

// tellLost logs what is not charged, one line for each tenant.
func (s *Store) tellLost(force bool) {
	for tenant, l := range s.backlog.losses(s.cfg.Now(), force) {
		s.cfg.Logger.Error("settlements are given up: Redis refuses what the tenant's keys hold",
			"tenant", tenant, "not_charged_tokens", l.tokens, "settlements", l.settlements, "keys", l.cause.Keys, "error", l.cause.Err)
	}
}
