package admission

import "time"

// dispatch tries waiters whenever there is reason to, until nobody waits.
func (c *Controller) dispatch() {
	for {
		<-c.wake
		c.mu.Lock()
		if c.freed.Swap(false) {
			c.line.Opened()
		}
		for it := c.line.Next(time.Now()); it != nil; it = c.line.Next(time.Now()) {
			c.tryLocked(it)
			if c.freed.Swap(false) {
				c.line.Opened()
			}
		}
		if c.line.Len() == 0 {
			c.running = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// tryLocked calls an item's start without the lock, and acts on what it says.
func (c *Controller) tryLocked(it *Item) {
	v := it.Value.(*waiter)
	v.trying, it.busy = true, true
	c.mu.Unlock()
	ok, o := call(v.start)
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
		return
	}
	c.countLocked()
	v.done <- o
}

// call runs start and catches its panic.
func call(start func() (bool, error)) (ok bool, o outcome) {
	defer func() {
		if p := recover(); p != nil {
			ok, o = false, outcome{panicked: p}
		}
	}()
	ok, err := start()
	if err != nil {
		ok = false
	}
	return ok, outcome{err: err}
}
