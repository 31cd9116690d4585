package registry

// Unwatched says that from now on nobody reads the replica's metrics or probes
// it. What only they could take back is forgotten: that its last probes failed,
// that its engine stood still, that it sleeps. An ejected replica stays out for
// its pause, and then comes back by a trial: nothing shows that it is well.
func (r *Replica) Unwatched() {
	r.out.And(^asleep)
	r.pool.mu.Lock()
	r.health.misses = 0
	r.health.alive = false
	r.health.still = stillness{}
	r.probing.Store(false)
	r.stands.Store(false)
	r.pool.mu.Unlock()
	r.pool.changed()
}
