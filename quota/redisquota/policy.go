package redisquota

import (
	"context"
	"errors"
	"math"

	"github.com/expediterhq/expediter/quota"
)

// without answers a Reserve by the policy, because Redis did not.
func (s *Store) without(ctx context.Context, r *quota.Reservation, cause error) error {
	switch s.cfg.Policy {
	case Open:
		return nil
	case LocalShare:
		return s.reserveLocal(ctx, r)
	}
	return s.unavailable(cause)
}

// reserveLocal grants from this gateway's share. What is too large for the share
// is not too large for ever.
func (s *Store) reserveLocal(ctx context.Context, r *quota.Reservation) error {
	err := s.local.Reserve(ctx, s.share(r))
	var e *quota.LimitError
	if errors.As(err, &e) && e.Verdict == quota.Never {
		e.Verdict, e.After = quota.OverQuota, downFor
	}
	return err
}

// settleLocal ends r in this gateway's share, if it was granted from there.
func (s *Store) settleLocal(r *quota.Reservation, used int64) {
	if s.cfg.Policy == LocalShare && s.local.Holds(r.Tenant, r.ID) {
		// The reservation was found good before, and is known: it cannot fail.
		_ = s.local.Settle(s.ctx, s.share(r), used)
	}
}

// renewLocal does the same for Renew.
func (s *Store) renewLocal(ctx context.Context, r *quota.Reservation) {
	if s.cfg.Policy == LocalShare && s.local.Holds(r.Tenant, r.ID) {
		_ = s.local.Renew(ctx, []quota.Reservation{s.share(r)})
	}
}

// share returns r with this gateway's share of its limit: bursts rounded down,
// slots rounded down to at least one.
func (s *Store) share(r *quota.Reservation) quota.Reservation {
	p := *r
	p.Limit.Windows = make([]quota.Window, len(r.Limit.Windows))
	for i, w := range r.Limit.Windows {
		w.Rate *= s.cfg.Share
		w.Burst = int64(math.Floor(float64(w.Burst) * s.cfg.Share))
		p.Limit.Windows[i] = w
	}
	if c := r.Limit.Concurrency; c > 0 {
		p.Limit.Concurrency = max(1, int(float64(c)*s.cfg.Share))
	}
	return p
}
