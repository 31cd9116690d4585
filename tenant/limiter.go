package tenant

import (
	"fmt"
	"hash/maphash"
	"math"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	limiterRows = 4
	limiterBits = 14 // cells per row, as a power of two
)

// LimiterConfig says how many failed attempts an address may make.
type LimiterConfig struct {
	// PerMinute is how many failed attempts per minute one address may make
	// in the long run. If zero, 60.
	PerMinute float64
	// Burst is how many it may make at once. If zero, 20.
	Burst int
}

// Limiter counts failed attempts by network address in constant memory
// (512 KiB), whatever the number of addresses. It trades exactness for that:
// it never lets an address fail more often than configured, but where a great
// many addresses fail at once, one that shares all four of its cells with
// others may be told to wait early. It is safe for concurrent use and takes
// no lock.
//
// Each cell holds the theoretical arrival time of the generic cell rate
// algorithm (ITU-T I.371); an address owns one cell in each of four rows and
// is judged by the lowest, as in a count-min sketch with conservative update.
type Limiter struct {
	seed      maphash.Seed
	start     time.Time
	interval  int64 // nanoseconds one attempt costs
	tolerance int64 // how far ahead of now a cell may run: (burst-1) intervals
	cells     [limiterRows][1 << limiterBits]atomic.Int64
}

// NewLimiter returns a Limiter, or an error if the rate or burst is negative
// or not finite.
func NewLimiter(cfg LimiterConfig) (*Limiter, error) {
	if cfg.PerMinute == 0 {
		cfg.PerMinute = 60
	}
	if cfg.Burst == 0 {
		cfg.Burst = 20
	}
	interval := float64(time.Minute) / cfg.PerMinute
	if !(cfg.PerMinute > 0) || interval < 1 || interval*float64(cfg.Burst) > math.MaxInt64/4 {
		return nil, fmt.Errorf("tenant: limiter: PerMinute is %v, want more than 0 and at most 6e10", cfg.PerMinute)
	}
	if cfg.Burst < 0 {
		return nil, fmt.Errorf("tenant: limiter: Burst is %d, want at least 1", cfg.Burst)
	}
	return &Limiter{
		seed:      maphash.MakeSeed(),
		start:     time.Now(),
		interval:  int64(interval),
		tolerance: int64(interval) * int64(cfg.Burst-1),
	}, nil
}

// Failed counts one failed attempt by addr at the time now. It returns zero
// if the address is within its limit, and otherwise how long it should wait;
// attempts beyond the limit do not lengthen the wait. An IPv6 address counts
// as its /64 network, since one host commonly owns all of it.
func (l *Limiter) Failed(addr netip.Addr, now time.Time) time.Duration {
	cells := l.find(addr)
	t := int64(now.Sub(l.start))
	low := lowest(&cells)
	if wait := low - l.tolerance - t; wait > 0 {
		return time.Duration(wait)
	}
	next := max(low, t) + l.interval
	for _, c := range cells {
		for {
			old := c.Load()
			if old >= next || c.CompareAndSwap(old, next) {
				break
			}
		}
	}
	return 0
}

// Limited returns how long addr should wait before another attempt is
// counted as within its limit, without counting one. Those who look keys up
// in a store of their own ask it first, so that a flood from one address
// costs no look-ups.
func (l *Limiter) Limited(addr netip.Addr, now time.Time) time.Duration {
	cells := l.find(addr)
	return time.Duration(max(0, lowest(&cells)-l.tolerance-int64(now.Sub(l.start))))
}

func (l *Limiter) find(addr netip.Addr) (cells [limiterRows]*atomic.Int64) {
	h := maphash.Comparable(l.seed, network(addr))
	for i := range cells {
		cells[i] = &l.cells[i][h&(1<<limiterBits-1)]
		h >>= limiterBits
	}
	return cells
}

func lowest(cells *[limiterRows]*atomic.Int64) int64 {
	low := int64(math.MaxInt64)
	for _, c := range cells {
		low = min(low, c.Load())
	}
	return low
}

// network returns what an address is counted as: an IPv4 address itself, the
// first 64 bits of an IPv6 one.
func network(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}
