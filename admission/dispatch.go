package admission

import "time"

// After patience rounds in a row in which nobody could start, the dispatcher
// takes a breath after each. In overload most news of room are of room that is
// too small, and one round for several of them costs no more than one.
const (
	patience = 16
	breath   = 500 * time.Microsecond
)

// dispatch tries waiters whenever there is reason to, until nobody waits.
func (c *Controller) dispatch() {
	fruitless := 0
	for {
		<-c.wake
		left, idle := c.round()
		switch {
		case left == 0:
			return
		case !idle:
			fruitless = 0
		case fruitless < patience:
			fruitless++
		default:
			c.pause()
		}
	}
}

// round tries all who may be tried. It returns how many are left, and whether
// nobody left the line.
func (c *Controller) round() (left int, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle = true
	if c.freed.Swap(false) {
		c.line.Opened()
	}
	for it := c.line.Next(time.Now()); it != nil; it = c.line.Next(time.Now()) {
		if c.tryLocked(it) {
			idle = false
		}
		if c.freed.Swap(false) {
			c.line.Opened()
		}
	}
	left = c.line.Len()
	c.running = left > 0
	return left, idle
}

// pause lets time pass, unless the Controller closes.
func (c *Controller) pause() {
	timer := time.NewTimer(breath)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closing:
	}
}

// tryLocked calls an item's start without the lock, and acts on what it says.
// It reports whether the item left the line.
func (c *Controller) tryLocked(it *Item) bool {
	v := it.Value.(*waiter)
	v.trying, it.busy = true, true
	keep := it.Keep != nil && !v.kept && c.line.kept() == it
	v.kept = v.kept || keep
	c.mu.Unlock()
	ok, o := v.call(keep)
	c.mu.Lock()
	v.trying, it.busy = false, false
	now := time.Now()
	switch {
	case ok:
		c.line.Start(it, now)
	case o.err != nil || o.panicked != nil:
		c.line.Remove(it, now)
	case v.leaving != nil:
		o.err = v.leaving
		c.line.Remove(it, now)
	case c.closed.Load():
		o.err = c.line.refusal(Closing, now)
		c.line.Remove(it, now)
	default:
		c.line.Refuse(it, now)
		return false
	}
	c.countLocked()
	v.done <- o
	return true
}

// call runs start, and Keep before it if it is time, and catches a panic.
func (v *waiter) call(keep bool) (ok bool, o outcome) {
	defer func() {
		if p := recover(); p != nil {
			ok, o = false, outcome{panicked: p}
		}
	}()
	if keep {
		v.item.Keep()
	}
	ok, err := v.start()
	return ok && err == nil, outcome{err: err}
}
