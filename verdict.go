package expediter

import (
	"context"
	"slices"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// afterLoss is how long after the loss of a connection a report must have come
// to be from a replica that survived: one under way before may come just after.
const afterLoss = 100 * time.Millisecond

// judge decides what is open about the losses.
func (k *kill) judge() {
	k.open = slices.DeleteFunc(k.open, func(l loss) bool {
		switch s := l.replica.State(); {
		case l.replica.Generation() != l.generation:
			k.certain(one(l.replica.Name(), l.generation))
			return true
		default:
			return s != nil && s.At.Sub(l.at) >= afterLoss // it lives on, as it was
		}
	})
}

// certain notes a replica that went down.
func (k *kill) certain(replica string) {
	if !slices.Contains(k.replicas, replica) && len(k.replicas) < poisonReplicas {
		k.replicas = append(k.replicas, replica)
	}
}

// blame notes that the connection to a replica was lost with the request on it:
// the replica went down if it does not accept another, or never reports.
func (q *request) blame(r *registry.Replica, generation uint64, now time.Time) {
	down := r.State() == nil
	if !down && !q.started { // nobody waits for the verdict on an answer that broke off
		alive, known := q.alive()
		down = known && !alive && q.ctx.Err() == nil
	}
	if down {
		q.h.poison.add(q.size.print, one(r.Name(), generation), now)
		return
	}
	q.h.poison.lost(q.size.print, loss{r, generation, now})
}

// poisonous reports whether the request took so many replicas down that it
// gets no other. While it may have done so it waits for the replicas' next
// reports, two intervals at most.
func (q *request) poisonous() bool {
	const look = 20 * time.Millisecond
	interval := q.g.Scrape
	if interval < 0 { // somebody else's
		interval = time.Second
	}
	for until := time.Now().Add(2*interval + afterLoss); ; {
		now := time.Now()
		certain, open := q.h.poison.count(q.size.print, now)
		switch {
		case certain >= q.g.Retry.Kills:
			return true
		case certain+open < q.g.Retry.Kills:
			return false
		case !now.Before(until):
			return true
		case !pause(q.ctx, look):
			return false // and the line tells why
		}
	}
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
