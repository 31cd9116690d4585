package sse

import "time"

// keepAliveLine is a comment without a blank line after it. It becomes part
// of the next event's block, where every reader skips it; a comment followed
// by a blank line is an event without data to readers that do not follow the
// standard.
const keepAliveLine = ":\n"

// keepAlive writes a comment line whenever nothing has been written for the
// length of an interval.
type keepAlive struct {
	w        *Writer
	interval time.Duration

	// Guarded by w.mu.
	last   time.Time // of the last write
	timer  *time.Timer
	closed bool
}

// touchLocked is called by every write.
func (k *keepAlive) touchLocked() {
	k.last = time.Now()
	if k.timer == nil && !k.closed {
		k.timer = time.AfterFunc(k.interval, k.look)
	}
}

func (k *keepAlive) look() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if k.closed || k.w.err != nil {
		return
	}
	if quiet := time.Since(k.last); quiet < k.interval {
		k.timer.Reset(k.interval - quiet)
		return
	}
	// An error is kept and returned by the handler's next write.
	if _, err := k.w.write([]byte(keepAliveLine)); err != nil {
		return
	}
	if k.w.flush() != nil {
		return
	}
	k.timer.Reset(k.interval)
}

func (k *keepAlive) close() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
}
