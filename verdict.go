package expediter

import (
	"context"
	"slices"
	"time"
)

// afterLoss is how long after the loss of a connection a report must have come
// to be from a replica that survived: one under way before may come just after.
const afterLoss = 100 * time.Millisecond

// judgeLocked decides what can be decided about the losses.
func (k *kill) judgeLocked() {
	for i, l := range k.undecided {
		if s := l.replica.State(); s != nil && s.At.Add(-afterLoss).After(l.at) && l.replica.Generation() == l.generation {
			k.undecided[i].at = s.At.Add(-afterLoss) // it lived on till then
		}
	}
	k.undecided = slices.DeleteFunc(k.undecided, func(l loss) bool {
		s := l.replica.State() // before the generation, which changes first
		switch {
		case l.replica.Generation() != l.generation:
			k.convictLocked(l.who())
			return true
		case s != nil && s.At.Sub(l.last) >= afterLoss:
			return true // it lives on, as it was
		}
		return !slices.Contains(l.replica.Pool().Replicas(), l.replica) // it was taken away
	})
}

// convictLocked notes a replica that went down.
func (k *kill) convictLocked(replica string) {
	if !slices.Contains(k.replicas, replica) && len(k.replicas) < poisonReplicas {
		k.replicas = append(k.replicas, replica)
	}
}

// blame notes that the connection to the request's replica was lost: it went
// down if it refuses another, or never reports.
func (q *request) blame(now time.Time) {
	l := loss{q.replica, q.rec.Generation, now, now}
	down := q.replica.State() == nil
	if !down && !q.started { // nobody waits for the verdict on an answer that broke off
		alive, known := alive(q.ctx, q.pool, q.replica)
		down = known && !alive && q.ctx.Err() == nil
	}
	if down {
		q.h.poison.add(q.size.print, l.who(), now)
		return
	}
	q.h.poison.lost(q.size.print, l)
}

// examine finds out whether a replica that reported a failure inside of it has
// lost its engine under the request. Nobody waits for that where the answer has
// begun.
func (q *request) examine(f *failure) {
	h, print, who, p, r := q.h, q.size.print, one(q.rec.Replica, q.rec.Generation), q.pool, q.replica
	generation := q.rec.Generation
	look := func() {
		switch now := time.Now(); h.engines.lost(who, f.began, func() fate { return engineFate(h.ctx, p, r) }) {
		case gone:
			h.poison.add(print, who, now)
		case doubtful:
			h.poison.lost(print, loss{r, generation, now, now})
		}
	}
	if q.started {
		h.tasks.Go(look)
		return
	}
	look()
}

// poisonous reports whether the request took so many replicas down that it
// gets no other. While it may have done so it waits for the replicas' next
// reports, for a little more than two intervals at most.
func (q *request) poisonous() bool {
	const look = 20 * time.Millisecond
	patience := 2*q.reports() + afterLoss
	for until := time.Now().Add(patience); ; {
		now := time.Now()
		certain, undecided := q.h.poison.count(q.size.print, now)
		switch {
		case certain >= q.g.Retry.Kills:
			return true
		case certain+undecided < q.g.Retry.Kills:
			return false
		case !now.Before(until):
			q.h.poison.convict(q.size.print, now.Add(-patience), now)
			certain, _ = q.h.poison.count(q.size.print, now)
			return certain >= q.g.Retry.Kills
		case !pause(q.ctx, look):
			return false // and the line tells why
		}
	}
}

// reports is how often the replicas report.
func (q *request) reports() time.Duration {
	if q.g.Scrape < 0 { // somebody else's doing
		return time.Second
	}
	return q.g.Scrape
}

// pause returns false if ctx ended before d had passed.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
