package registry

import (
	"errors"
	"fmt"
	"time"
)

// EjectConfig says when a replica is taken out of rotation and for how long.
// At most half of a pool is ever ejected, and never its last routable member.
type EjectConfig struct {
	Failures int           // consecutive failures that eject. If zero, 3
	Pause    time.Duration // first pause; it doubles with every failed trial. If zero, 10 s
	MaxPause time.Duration // longest pause, and the healthy time after which pauses start anew. If zero, 5 min
	Misses   int           // consecutive failed probes, with no token meanwhile, that eject. If zero, 3
	Dwell    time.Duration // least pause after failed probes, and time after a change of state in which twice as many must fail. If zero, 1 min
	Frozen   time.Duration // time with work but without an engine step or a token that ejects; half as long again while the engine shows none of that work, and not before its first step. If zero, 5 s
}

func (c EjectConfig) withDefaults() EjectConfig {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Failures == 0 {
		c.Failures = 3
	}
	if c.Misses == 0 {
		c.Misses = 3
	}
	def(&c.Pause, 10*time.Second)
	def(&c.MaxPause, max(5*time.Minute, c.Pause))
	def(&c.Dwell, time.Minute)
	def(&c.Frozen, 5*time.Second)
	return c
}

func (c EjectConfig) validate(pool string) error {
	var errs []error
	bad := func(ok bool, what string, got any) {
		if !ok {
			errs = append(errs, fmt.Errorf("registry: pool %q: eject: %s, got %v", pool, what, got))
		}
	}
	bad(c.Failures >= 0, "failures: expected 0 or more", c.Failures)
	bad(c.Misses >= 0, "misses: expected 0 or more", c.Misses)
	bad(c.Pause >= 0, "pause: expected 0 or more", c.Pause)
	bad(c.MaxPause == 0 || c.MaxPause >= max(c.Pause, 0), "max pause: expected at least the pause", c.MaxPause)
	bad(c.Dwell >= 0, "dwell: expected 0 or more", c.Dwell)
	bad(c.Frozen >= 0, "frozen: expected 0 or more", c.Frozen)
	return errors.Join(errs...)
}

// What Replica.out is made of.
const (
	ejected uint32 = 1 << iota
	draining
	asleep
	removed
)

// is reports whether any of the bits is set.
func (r *Replica) is(bits uint32) bool { return r.out.Load()&bits != 0 }

// Reason says why a replica was ejected.
type Reason string

// The reasons for ejection.
const (
	ByFailures Reason = "failures" // requests failed
	ByProbe    Reason = "probe"    // the health probe failed and no token came
	ByFreeze   Reason = "frozen"   // the engine made no step and no token while it had work, see EjectConfig.Frozen
)

// health is the slow-changing side of a replica's health, guarded by the
// pool's lock.
type health struct {
	reason Reason
	since  time.Time // of the present mode
	ejects int       // pauses in a row, for their length
	misses int       // probes failed in a row
	trials uint64    // let through, to number them
	alive  bool      // since its pause began, a probe or a step showed that the reason is over
	still  stillness
}
