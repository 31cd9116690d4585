package admission

import (
	"math"
	"sync"
)

const (
	outputTenants  = 4096 // tenants with a history of their own; the rest share one
	outputBuckets  = 44   // half powers of two: the last begins at 2^21.5 tokens
	outputFew      = 8    // fewer answers than this say nothing
	outputWindow   = 512  // answers after which all older ones weigh half
	outputUnknown  = 256  // tokens, until there is a history
	outputQuantile = 0.9
)

// Outputs learns how long answers are, by tenant. KV cache is claimed for a
// high quantile of that and not for the limit a client asks for, which most
// answers stay far below. The zero value is ready; one is used for each model.
// It is safe for concurrent use, and its memory is bounded.
type Outputs struct {
	mu      sync.Mutex
	tenants map[string]*lengths
	others  lengths
}

// Observe notes that one answer for the tenant had that many tokens. Answers
// that were broken off say nothing of their length and are not to be told.
func (o *Outputs) Observe(tenant string, tokens int) {
	if tokens <= 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.tenants[tenant]
	if h == nil && len(o.tenants) < outputTenants {
		if o.tenants == nil {
			o.tenants = make(map[string]*lengths)
		}
		h = new(lengths)
		o.tenants[tenant] = h
	}
	if h == nil {
		h = &o.others
	}
	h.add(tokens)
}

// Expect returns the tokens that nine of ten answers for the tenant stay
// within, rounded up by less than half, and at most limit. Of a tenant
// without enough answers it expects 256.
func (o *Outputs) Expect(tenant string, limit int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.tenants[tenant]
	if h == nil {
		h = &o.others
	}
	return min(h.quantile(), limit)
}

// lengths is a fading histogram.
type lengths struct {
	counts [outputBuckets]float32
	total  float32
}

func (h *lengths) add(tokens int) {
	i := 0
	if tokens > 1 {
		// Bucket i holds what is above 2^((i-1)/2), up to 2^(i/2).
		i = min(int(math.Ceil(2*math.Log2(float64(tokens)))), outputBuckets-1)
	}
	h.counts[i]++
	h.total++
	if h.total < outputWindow {
		return
	}
	h.total = 0
	for i := range h.counts {
		h.counts[i] /= 2
		h.total += h.counts[i]
	}
}

// quantile is the upper end of the bucket that holds the quantile.
func (h *lengths) quantile() int {
	if h.total < outputFew {
		return outputUnknown
	}
	need := h.total * outputQuantile
	for i, n := range h.counts {
		if need -= n; need <= 0 && n > 0 {
			return int(math.Exp2(float64(i) / 2))
		}
	}
	return outputUnknown
}
