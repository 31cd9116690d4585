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
	busy       atomic.Int64 // when requests last rose from 0, in Unix nanoseconds
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

func (g *ledger) open(sequences, prefill, context int64, now time.Time) {
	if g.requests.Load() == 0 {
		g.busy.Store(now.UnixNano())
	}
	g.requests.Add(sequences)
	g.prefilling.Add(sequences)
	g.prefill.Add(prefill)
	g.context.Add(context)
}

// since returns when the first of the requests arrived that have followed each
// other without a gap, or zero if there is none now.
func (g *ledger) since() time.Time {
	if g.requests.Load() == 0 {
		return time.Time{}
	}
	return time.Unix(0, g.busy.Load())
}

func (g *ledger) firstToken(sequences, prefill int64) {
	g.prefilling.Add(-sequences)
	g.prefill.Add(-prefill)
}

func (g *ledger) close(sequences, kv, context int64) {
	g.context.Add(-context)
	g.requests.Add(-sequences)
	g.kv.Add(-kv)
}
