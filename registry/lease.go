package registry

import (
	"sync"
	"time"
)

// Lease is one request's claim on a replica, from before its dispatch to its
// end. It is a small value that may be copied: all copies are the same
// lease, and a copy kept after the end does nothing. The zero Lease is a
// no-op. Every method is idempotent where it ends something and safe for
// concurrent use.
type Lease struct {
	e   *entry
	gen uint64
}

// entry is the state behind a Lease. Entries are used again for later
// leases; gen tells a late copy of an earlier lease from the present one.
type entry struct {
	mu        sync.Mutex
	gen       uint64
	r         *Replica
	at        time.Time // dispatch
	ahead     int64     // prefill tokens on the replica at dispatch, own included
	sequences int64
	awaited   int64 // sequences that nothing but the engine keeps from a first token
	prefill   int64
	kv        int64
	context   int64
	first     bool   // the first token was seen
	loads     bool   // an adapter has to be loaded first
	trial     uint64 // number of the trial that this is, on an ejected replica; 0 = it is none
	adapter   *adapter
}

var entries = sync.Pool{New: func() any { return new(entry) }}

// Lease is [Replica.LeaseAt] at the present time.
func (r *Replica) Lease(c Claim) (Lease, bool) { return r.LeaseAt(c, time.Now()) }

// LeaseAt claims room for a request that is about to be sent. It reports
// false, and takes nothing, when the claim does not fit beside what is there
// and what is set aside there below the pool's headroom, or when the replica is
// not routable at now. A request that would be alone on an idle replica is
// refused only if it exceeds the whole capacity. While the capacity is neither
// reported nor assumed every claim fits.
//
// On an ejected replica whose pause is over the lease is the trial: until it
// ends no other is granted.
func (r *Replica) LeaseAt(c Claim, now time.Time) (Lease, bool) {
	trial, ok := r.enter(now)
	if !ok {
		return Lease{}, false
	}
	kv := int64(max(c.KV, 0))
	others := int64(0)
	if rep := r.fresh(now); rep != nil {
		others = int64(rep.others.KV)
	}
	if !r.ledger.take(kv, others, r.usable.Load(), r.capacity.Load()) {
		r.endTrial(trial)
		return Lease{}, false
	}
	e := entries.Get().(*entry)
	e.mu.Lock()
	e.r, e.at, e.trial, e.first = r, now, trial, false
	e.sequences, e.awaited = int64(max(c.Sequences, 1)), 0
	if !c.Media {
		e.awaited = e.sequences
	}
	e.prefill, e.kv, e.context = int64(max(c.Prefill, 0)), kv, int64(max(c.Context, 0))
	r.ledger.open(e.sequences, e.awaited, e.prefill, e.context, now)
	e.ahead = r.ledger.prefill.Load()
	r.mix.note(e.prefill, e.context, e.sequences)
	r.pool.mix.note(e.prefill, e.context, e.sequences)
	e.adapter, e.loads = nil, false
	if c.Adapter != "" {
		e.adapter, e.loads = r.adapters.use(c.Adapter, r.maxLoRA())
		e.adapter.inFlight.Add(1)
	}
	l := Lease{e: e, gen: e.gen}
	e.mu.Unlock()
	return l, true
}

// lock returns the entry locked, or nil if the lease is over.
func (l *Lease) lock() *entry {
	if l.e == nil {
		return nil
	}
	l.e.mu.Lock()
	if l.e.gen != l.gen {
		l.e.mu.Unlock()
		return nil
	}
	return l.e
}

// Trial reports whether the request is the one that an ejected replica is tried
// with.
func (l *Lease) Trial() bool {
	e := l.lock()
	if e == nil {
		return false
	}
	defer e.mu.Unlock()
	return e.trial != 0
}

// GivenUp reports whether the replica is given up, as [Replica.GivenUp] says. What
// it did before its trial began does not count: a trial has twice the time in which
// an engine must make a step ([EjectConfig].Frozen) before it does.
func (l *Lease) GivenUp(now time.Time) bool {
	e := l.lock()
	if e == nil {
		return false
	}
	r, at, trial := e.r, e.at, e.trial
	e.mu.Unlock()
	return r.GivenUp() && (trial == 0 || now.Sub(at) >= 2*r.config().Eject.Frozen)
}

// FirstToken is [Lease.FirstTokenAt] at the present time.
func (l *Lease) FirstToken() { l.FirstTokenAt(time.Now()) }

// FirstTokenAt says that the first token arrived: the prompt is computed, so
// the prefill part of the claim ends, and the replica's prefill rate is
// learned from the time since the lease was taken.
func (l *Lease) FirstTokenAt(now time.Time) {
	e := l.lock()
	if e == nil {
		return
	}
	if e.first {
		e.mu.Unlock()
		return
	}
	e.first = true
	r := e.r
	r.ledger.firstToken(e.sequences, e.awaited, e.prefill)
	if e.loads {
		r.learnAdapterLoad(e.ahead, now.Sub(e.at))
	} else {
		r.learnPrefill(e.ahead, now.Sub(e.at))
	}
	e.mu.Unlock()
	r.Progress(now)
	r.pool.changed()
}

// Succeeded says that the request was answered. It is called once per request,
// when the first token is out or the whole answer is, and before Release. The
// replica's failures are counted anew, as by [Replica.Succeeded], and if the
// request is the trial of an ejected replica, that is readmitted. No other
// request readmits one, however late its answer comes.
func (l *Lease) Succeeded(now time.Time) {
	e := l.lock()
	if e == nil {
		return
	}
	r, trial := e.r, e.trial
	e.mu.Unlock()
	r.Succeeded(now)
	if trial != 0 {
		r.readmit(trial, now)
	}
}

// Grow claims tokens more of KV and context, for an output that turns out
// longer than was expected. It is not refused: the engine has produced them.
func (l *Lease) Grow(tokens int) {
	e := l.lock()
	if e == nil {
		return
	}
	if tokens > 0 {
		e.kv += int64(tokens)
		e.context += int64(tokens)
		e.r.ledger.kv.Add(int64(tokens))
		e.r.ledger.context.Add(int64(tokens))
	}
	e.mu.Unlock()
}

// Release gives back all that the lease still holds. It says nothing about
// success or failure: see [Lease.Succeeded] and [Replica.Failed], which are called
// before it. From here on another trial may be let through.
func (l *Lease) Release() {
	e := l.lock()
	if e == nil {
		return
	}
	r := e.r
	if !e.first {
		r.ledger.firstToken(e.sequences, e.awaited, e.prefill)
	}
	r.ledger.close(e.sequences, e.kv, e.context)
	if e.adapter != nil {
		e.adapter.inFlight.Add(-1)
	}
	r.endTrial(e.trial)
	e.gen++
	e.r, e.adapter = nil, nil
	e.mu.Unlock()
	entries.Put(e)
	r.pool.changed()
}

// Active reports whether the lease still holds its claim.
func (l *Lease) Active() bool {
	e := l.lock()
	if e == nil {
		return false
	}
	e.mu.Unlock()
	return true
}
