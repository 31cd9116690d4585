package expediter

import (
	"slices"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// kept is room set aside on one replica for a large request that others have
// overtaken for long: it claims the room before it is free, so that nobody
// else is placed into what frees up.
type kept struct {
	replica *registry.Replica
	lease   registry.Lease
}

// keep sets room aside. It is called at most once for a request in line, and
// never while pick is running.
func (q *request) keep() {
	now, all := time.Now(), q.pool.replicas.Replicas()
	r := largest(all, q.pool.lacks.without(q.tried, all, q.model.Adapter, now), now)
	if r == nil {
		return
	}
	lease, ok := r.Lease(registry.Claim{})
	if !ok {
		return
	}
	lease.Grow(q.size.input + q.size.all(q.size.expected))
	q.kept = kept{replica: r, lease: lease}
}

// largest returns the routable replica with the most usable KV cache, or nil. It
// is none of those in without.
func largest(replicas, without []*registry.Replica, now time.Time) *registry.Replica {
	var best *registry.Replica
	most := -1
	for _, r := range replicas {
		if _, usable := r.Capacity(); usable > most && r.Routable(now) && !slices.Contains(without, r) {
			best, most = r, usable
		}
	}
	return best
}

// keptReady reports whether pick may go on: nothing is set aside, or what is
// set aside has become free. The room is then given back for pick to take.
func (q *request) keptReady() bool {
	k := &q.kept
	if k.replica == nil {
		return true
	}
	now := time.Now()
	if _, usable := k.replica.Capacity(); k.replica.Routable(now) && k.replica.Estimate(now).KV > usable {
		return false
	}
	k.lease.Release()
	return true
}

// keepOn sets the room aside again after pick found that it was taken.
func (q *request) keepOn() {
	if q.kept.replica != nil {
		q.keep()
	}
}
