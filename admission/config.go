package admission

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config bounds and shapes a line.
type Config struct {
	MaxWaiting       int // entries. If zero, 10,000
	MaxWaitingTokens int // KV tokens of all entries. If zero, 20,000,000

	// TierFloor is the least share of what is started that a tier gets while
	// it waits, whatever higher tiers want, and the share of a full line that
	// higher tiers cannot push it out of. If zero, 0.05; below zero, none.
	TierFloor float64

	// ReserveAfter is how long work that does not fit may be overtaken before
	// room is kept for it: see Work.Keep and Backfill. If zero, 1 s; below
	// zero, it never is.
	ReserveAfter time.Duration

	// Backfill is the share of what becomes free that others may take when
	// room begins to be kept for work without Keep; it fades from there, within
	// seconds. That slows the whole pool down, so it is for pools of one or
	// two replicas. If zero, 1: nobody is limited.
	Backfill float64
}

func (c *Config) validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("admission: "+format, args...))
		}
	}
	bad(c.MaxWaiting >= 0, "max waiting: expected 0 or more, got %d", c.MaxWaiting)
	bad(c.MaxWaitingTokens >= 0, "max waiting tokens: expected 0 or more, got %d", c.MaxWaitingTokens)
	bad(c.TierFloor < 0.5 && !math.IsNaN(c.TierFloor), "tier floor: expected a share below 0.5, got %v", c.TierFloor)
	bad(c.Backfill >= 0 && c.Backfill <= 1, "backfill: expected a share from 0 to 1, got %v", c.Backfill)
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 10_000
	}
	if c.MaxWaitingTokens == 0 {
		c.MaxWaitingTokens = 20_000_000
	}
	if c.TierFloor == 0 {
		c.TierFloor = 0.05
	}
	c.TierFloor = max(c.TierFloor, 0)
	if c.ReserveAfter == 0 {
		c.ReserveAfter = time.Second
	}
	if c.Backfill == 0 {
		c.Backfill = 1
	}
	return c
}
