package expediter

import (
	"sync"
	"sync/atomic"
)

// byteBudget bounds the bytes of all request bodies in memory together, and
// gives no tenant more than half of them.
type byteBudget struct {
	limit int64

	mu       sync.Mutex
	used     int64
	byTenant map[string]int64
}

// take reserves n bytes, or reports that they are not to be had now.
func (b *byteBudget) take(tenant string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.byTenant[tenant]
	if b.used+n > b.limit || held > 0 && held+n > b.limit/2 {
		return false
	}
	if b.byTenant == nil {
		b.byTenant = make(map[string]int64)
	}
	b.used += n
	b.byTenant[tenant] = held + n
	return true
}

func (b *byteBudget) give(tenant string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.byTenant[tenant] -= n; b.byTenant[tenant] == 0 {
		delete(b.byTenant, tenant)
	}
}

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
