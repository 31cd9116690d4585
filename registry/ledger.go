package registry

import (
	"sync/atomic"
	"time"
)

// ledger counts what this process has in flight on one replica. Each counter
// is exact; a snapshot is not one instant across all of them.
type ledger struct {
	kv         atomic.Int64
	requests   atomic.Int64
	aside      atomic.Int64 // KV tokens set aside, which nothing is in flight for
	prefilling atomic.Int64
	prefill    atomic.Int64
	context    atomic.Int64
	awaited    atomic.Int64 // those of prefilling that nothing but the engine keeps from a first token
	awaiting   atomic.Int64 // when awaited last rose from 0, in Unix nanoseconds
}

// load is what is in flight, without what is only set aside.
func (g *ledger) load() Load {
	return Load{
		Requests:   int(g.requests.Load()),
		Prefilling: int(g.prefilling.Load()),
		Prefill:    int(g.prefill.Load()),
		KV:         int(g.kv.Load()),
		Context:    int(g.context.Load()),
	}
}

// take claims kv tokens if they fit beside what others hold there. limit is
// the room kept below headroom, full the whole cache, which a request that
// finds nothing else may use; full 0 means the size is unknown. What is set aside
// counts, but leaves no replica idle.
func (g *ledger) take(kv, others, limit, full int64) bool {
	for {
		held := g.kv.Load()
		if full > 0 && held+g.aside.Load()+others+kv > limit {
			alone := held == 0 && others == 0 && g.requests.Load() == 0
			if !alone || kv > full {
				return false
			}
		}
		if g.kv.CompareAndSwap(held, held+kv) {
			return true
		}
	}
}

func (g *ledger) open(sequences, awaited, prefill, context int64, now time.Time) {
	if awaited > 0 && g.awaited.Load() == 0 {
		g.awaiting.Store(now.UnixNano())
	}
	g.awaited.Add(awaited)
	g.requests.Add(sequences)
	g.prefilling.Add(sequences)
	g.prefill.Add(prefill)
	g.context.Add(context)
}

// since returns when the first of the requests was sent that have waited for the
// engine's first token one after the other without a gap, or zero if none does.
// What has its first token may be done there, and be held up by its client.
func (g *ledger) since() time.Time {
	if g.awaited.Load() == 0 {
		return time.Time{}
	}
	return time.Unix(0, g.awaiting.Load())
}

func (g *ledger) firstToken(sequences, awaited, prefill int64) {
	g.awaited.Add(-awaited)
	g.prefilling.Add(-sequences)
	g.prefill.Add(-prefill)
}

func (g *ledger) close(sequences, kv, context int64) {
	g.context.Add(-context)
	g.requests.Add(-sequences)
	g.kv.Add(-kv)
}
