package sse

import (
	"sync"
	"sync/atomic"
	"time"
)

// The reasons for which a watchdog lets nothing pass any more.
const (
	stalled = 1 + iota
	aborted
)

// watchdog cuts a response off whose client does not accept what is written.
//
// A rolling write deadline set before each write would do for HTTP/1.1. On
// HTTP/2, however, net/http resets a stream whose deadline passes even while
// nothing is being written, and an event stream may be silent for longer
// than any write may take. So the deadline is only ever set into the past,
// by a timer that looks four times per time-out whether still the same write
// is under way. A write costs two atomic operations, and no time is read.
type watchdog struct {
	tick time.Duration // 0: only abort

	// writes is odd while a write is under way; cut is added once the
	// response is cut off.
	writes atomic.Uint64
	armed  atomic.Bool

	mu       sync.Mutex // held by the timer's function and abort
	deadline deadliner
	timer    *time.Timer
	seen     uint64 // writes at the last tick
	since    int    // ticks that have seen it odd
	why      int
	closed   bool
}

const (
	ticks = 4
	cut   = 1 << 63
)

func (d *watchdog) start(dl deadliner, timeout time.Duration) {
	d.deadline = dl
	d.tick = max(timeout/ticks, 1)
}

// enter is called before a write; false means that the response is cut off.
func (d *watchdog) enter() bool {
	if d.writes.Add(1)&cut != 0 {
		return false
	}
	if d.tick > 0 && !d.armed.Load() {
		d.arm()
	}
	return true
}

// leave is called after a write; false means that the response was cut off
// meanwhile. Whoever did that has then finished.
func (d *watchdog) leave() bool {
	if d.writes.Add(1)&cut == 0 {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return false
}

func (d *watchdog) arm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.armed.Store(true)
	d.seen = 0
	if d.timer == nil {
		d.timer = time.AfterFunc(d.tick, d.look)
	} else {
		d.timer.Reset(d.tick)
	}
}

// look runs at each tick. Without writes since the last one the watchdog
// goes to sleep until the next.
func (d *watchdog) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.writes.Load()
	switch {
	case d.closed || n&cut != 0:
		return
	case n&1 == 0 && n == d.seen && d.sleep(n):
		return
	case n&1 == 0 || n != d.seen:
		d.seen, d.since = n, 1
	default:
		d.since++
	}
	if d.since == ticks && d.writes.CompareAndSwap(n, n|cut) {
		d.why = stalled
		// The write itself reports that the connection is gone.
		_ = d.deadline.SetWriteDeadline(time.Unix(1, 0))
		return
	}
	d.timer.Reset(d.tick)
}

// sleep lets the next write arm the timer again, unless one that did not
// see that it had to has begun since n.
func (d *watchdog) sleep(n uint64) bool {
	d.armed.Store(false)
	if d.writes.Load() == n {
		return true
	}
	d.armed.Store(true)
	return false
}

func (d *watchdog) abort(dl deadliner) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why == 0 {
		d.why = aborted
		d.writes.Or(cut)
	}
	return dl.SetWriteDeadline(time.Unix(1, 0))
}

func (d *watchdog) reason() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.why
}

func (d *watchdog) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
}
