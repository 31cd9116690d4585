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
	replica  *registry.Replica
	giveBack func()
}

// release gives the room back, if there is any.
func (k *kept) release() {
	if k.giveBack != nil {
		k.giveBack()
	}
}

// keep sets room aside. It is called at most once for a request in line, and
// never while pick is running.
func (q *request) keep() {
	now, all := time.Now(), q.pool.replicas.Replicas()
	r := largest(all, q.pool.lacks.without(q.tried, all, q.model.Adapter, now), now)
	if r == nil {
		return
	}
	q.kept = kept{r, r.SetAside(q.size.input + q.size.all(q.size.expected))}
}

// largest returns the replica in rotation with the most usable KV cache, or nil.
// It is none of those in without.
func largest(replicas, without []*registry.Replica, now time.Time) *registry.Replica {
	var best *registry.Replica
	most := -1
	for _, r := range replicas {
		if _, usable := r.Capacity(); usable > most && serves(r, now) && !slices.Contains(without, r) {
			best, most = r, usable
		}
	}
	return best
}

// serves reports whether r is in rotation. One that is tried again is not yet.
func serves(r *registry.Replica, now time.Time) bool {
	_, out := r.Ejected()
	return !out && r.Routable(now)
}

// keptReady reports whether pick may go on: nothing is set aside, or what is
// set aside has become free. The room is then given back for pick to take.
func (q *request) keptReady() bool {
	k := &q.kept
	if k.replica == nil {
		return true
	}
	now := time.Now()
	if serves(k.replica, now) && !free(k.replica, now) {
		return false
	}
	k.release()
	return true
}

// free reports whether what is set aside on r fits beside what is there, or r is
// idle: a request that is alone may fill the whole cache.
func free(r *registry.Replica, now time.Time) bool {
	load := r.Estimate(now)
	if _, usable := r.Capacity(); load.KV <= usable {
		return true
	}
	others, _ := r.Others(now)
	return load.Requests == 0 && r.Load().KV == 0 && others.KV == 0
}

// keepOn sets the room aside again after pick found that it was taken.
func (q *request) keepOn() {
	if q.kept.replica != nil {
		q.keep()
	}
}
