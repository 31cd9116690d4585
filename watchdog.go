package expediter

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Why a watchdog ended an attempt.
var (
	errNoFirstToken = errors.New("expediter: no token in time")
	errSilence      = errors.New("expediter: no event in time")
	errStandsStill  = errors.New("expediter: the engine stands still")
)

// lookout is how often a watchdog looks whether the replica is given up.
const lookout = time.Second

// watchdog ends an attempt that makes no progress. Seeing progress costs one
// atomic store; the timer looks at it only when it fires.
type watchdog struct {
	cancel context.CancelCauseFunc
	lost   func() bool // the replica is given up; asked while the first token is waited for
	timer  *time.Timer
	began  time.Time
	last   atomic.Int64 // nanoseconds from began to the last progress
	wait   atomic.Pointer[patience]
	away   atomic.Bool // the goroutine waits for somebody else than the replica
}

// patience is how long after the last progress an attempt ends, and why.
type patience struct {
	limit time.Duration
	cause error
}

// next returns when to look again if so much time is left.
func (p *patience) next(left time.Duration) time.Duration {
	if p.cause == errNoFirstToken {
		return min(left, lookout)
	}
	return left
}

// watch returns a watchdog that waits for expect.
func watch(cancel context.CancelCauseFunc, lost func() bool) *watchdog {
	return &watchdog{cancel: cancel, lost: lost, began: time.Now()}
}

// expect allows limit from now on until the next call of progress, again and
// again. It is for one goroutine.
func (d *watchdog) expect(limit time.Duration, cause error) {
	d.last.Store(int64(time.Since(d.began)))
	p := &patience{limit, cause}
	d.wait.Store(p)
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Hour, d.look) // look must find it set
	}
	d.timer.Reset(p.next(limit))
}

// progress notes that something came.
func (d *watchdog) progress(now time.Time) { d.last.Store(int64(now.Sub(d.began))) }

// leave says that the replica is not waited for until the next call of back.
func (d *watchdog) leave() { d.away.Store(true) }

// back says that it is again, from now on.
func (d *watchdog) back() {
	d.progress(time.Now())
	d.away.Store(false)
}

func (d *watchdog) look() {
	p := d.wait.Load()
	away := d.away.Load() // before last, which back stores first
	left := time.Duration(d.last.Load()) + p.limit - time.Since(d.began)
	if away {
		left = p.limit
	}
	switch {
	case p.cause == errNoFirstToken && d.lost():
		if d.wait.Load() == p { // the first token may have come just now
			d.cancel(errStandsStill)
		}
	case left > 0:
		d.timer.Reset(p.next(left))
	default:
		d.cancel(p.cause)
	}
}

func (d *watchdog) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
