package expediter

import (
	"context"
	"errors"
	"sync"
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
	began  time.Time
	last   atomic.Int64 // nanoseconds from began to the last progress
	away   atomic.Bool  // the goroutine waits for somebody else than the replica
	left   time.Time    // when it began to; that goroutine's own

	mu    sync.Mutex
	timer *time.Timer
	wait  *patience // another with each call of expect; nil before the first, and when stopped
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
// again. What was expected before ends nothing any more. It is for one goroutine.
func (d *watchdog) expect(limit time.Duration, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress(time.Now())
	d.wait = &patience{limit, cause}
	if d.timer == nil {
		d.timer = time.AfterFunc(d.wait.next(limit), d.look)
		return
	}
	d.timer.Reset(d.wait.next(limit))
}

// progress notes that something came.
func (d *watchdog) progress(now time.Time) { d.last.Store(int64(now.Sub(d.began))) }

// leave says that the replica is not waited for until the next call of back.
func (d *watchdog) leave() {
	d.left = time.Now()
	d.away.Store(true)
}

// back says that it is again. The time in between does not count.
func (d *watchdog) back() {
	d.last.Add(int64(time.Since(d.left)))
	d.away.Store(false)
}

func (d *watchdog) look() {
	p := d.patience()
	lost := p != nil && p.cause == errNoFirstToken && d.lost() // which may take locks
	d.mu.Lock()
	defer d.mu.Unlock()
	if p == nil || d.wait != p {
		return // expect has set the timer itself, or nobody waits any more
	}
	away := d.away.Load() // before last, which back stores first
	left := time.Duration(d.last.Load()) + p.limit - time.Since(d.began)
	if away {
		left = p.limit
	}
	switch {
	case lost:
		d.cancel(errStandsStill)
	case left > 0:
		d.timer.Reset(p.next(left))
	default:
		d.cancel(p.cause)
	}
}

func (d *watchdog) patience() *patience {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wait
}

// stop ends what is expected.
func (d *watchdog) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wait = nil
	if d.timer != nil {
		d.timer.Stop()
	}
}
