package expediter

import (
	"math"
	"sync"
)

const (
	expectBuckets  = 36   // half powers of two: the last starts at 2^17.5 tokens
	expectWindow   = 512  // answers after which older ones weigh half
	expectFew      = 8    // fewer answers than this say nothing
	expectTenants  = 4096 // tenants with a history of their own; the rest share one
	expectQuantile = 0.9
	expectUnknown  = 256 // tokens, until there is a history
)

// outputs learns how long the answers of one pool are, by tenant. KV cache is
// claimed for a high quantile of that, not for the limit a client asks for,
// which most answers stay far below. Safe for concurrent use; memory is
// bounded by expectTenants.
type outputs struct {
	mu       sync.Mutex
	byTenant map[string]*outputHistory
	others   outputHistory
}

type outputHistory struct {
	counts [expectBuckets]float32
	total  float32
}

func newOutputs() *outputs { return &outputs{byTenant: make(map[string]*outputHistory)} }

// observe notes that an answer had n tokens.
func (o *outputs) observe(tenant string, n int) {
	if n <= 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.byTenant[tenant]
	switch {
	case h != nil:
	case len(o.byTenant) < expectTenants:
		h = new(outputHistory)
		o.byTenant[tenant] = h
	default:
		h = &o.others
	}
	h.add(n)
}

// expect returns the tokens that an answer for tenant will hardly exceed, at
// most limit.
func (o *outputs) expect(tenant string, limit int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.byTenant[tenant]
	if h == nil {
		h = &o.others
	}
	return min(limit, h.quantile())
}

func (h *outputHistory) add(n int) {
	i := min(int(2*math.Log2(float64(n))), expectBuckets-1)
	h.counts[i]++
	h.total++
	if h.total < expectWindow {
		return
	}
	h.total = 0
	for i := range h.counts {
		h.counts[i] /= 2
		h.total += h.counts[i]
	}
}

// quantile returns the upper end of the bucket that holds the quantile.
func (h *outputHistory) quantile() int {
	if h.total < expectFew {
		return expectUnknown
	}
	left := h.total * (1 - expectQuantile)
	for i := expectBuckets - 1; i >= 0; i-- {
		left -= h.counts[i]
		if left < 0 {
			return int(math.Exp2(float64(i+1) / 2))
		}
	}
	return expectUnknown
}
