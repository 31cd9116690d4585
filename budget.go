package expediter

import "sync/atomic"

// byteBudget bounds the bytes of all request bodies in memory together.
type byteBudget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes, or reports that they are not to be had now.
func (b *byteBudget) take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *byteBudget) give(n int64) { b.used.Add(-n) }

// retryBudget bounds second tries over all requests, so that an outage of
// the fleet is not made worse by everybody trying again: each request earns
// ratio tries, at most burst are saved.
type retryBudget struct {
	ratio, burst int64 // in thousandths of a try
	saved        atomic.Int64
}

func newRetryBudget(r Retry) *retryBudget {
	b := &retryBudget{ratio: int64(r.Ratio * 1000), burst: int64(r.Burst) * 1000}
	b.saved.Store(b.burst)
	return b
}

// earn notes one request.
func (b *retryBudget) earn() {
	for {
		s := b.saved.Load()
		if s >= b.burst || b.saved.CompareAndSwap(s, min(s+b.ratio, b.burst)) {
			return
		}
	}
}

// spend takes one try, or reports that none is left.
func (b *retryBudget) spend() bool {
	for {
		s := b.saved.Load()
		if s < 1000 {
			return false
		}
		if b.saved.CompareAndSwap(s, s-1000) {
			return true
		}
	}
}
