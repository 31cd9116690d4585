package registry

import "sync"

// SetAside claims kv tokens of KV cache for a request that waits until so much
// is free, so that what frees up is not given to others. It is never refused:
// there need be no room. Nothing is in flight for it: it is part of
// [Replica.Estimate] and not of [Replica.Load], it is no work that the engine
// should be seen doing, and it tries no ejected replica. A replica where nothing
// is in flight takes one request whatever is set aside. giveBack ends the claim;
// it may be called more than once.
func (r *Replica) SetAside(kv int) (giveBack func()) {
	tokens := int64(max(kv, 0))
	r.ledger.aside.Add(tokens)
	return sync.OnceFunc(func() {
		r.ledger.aside.Add(-tokens)
		r.pool.changed()
	})
}
