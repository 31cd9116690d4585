package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Controller is a Line for many goroutines in real time. It is safe for
// concurrent use. While nobody waits Admit costs no more than start itself.
//
// A tenant's counter counts work that had to wait; while nobody waits there is
// nothing to be fair about.
type Controller struct {
	mu      sync.Mutex
	line    *Line
	running bool // the dispatcher

	waiting atomic.Int64 // entries
	closed  atomic.Bool
	freed   atomic.Bool
	wake    chan struct{}
	closing chan struct{}
	tasks   sync.WaitGroup
}

// NewController returns a Controller. The error names every mistake in cfg.
func NewController(cfg Config) (*Controller, error) {
	line, err := NewLine(cfg)
	if err != nil {
		return nil, err
	}
	return &Controller{line: line, wake: make(chan struct{}, 1), closing: make(chan struct{})}, nil
}

// waiter is an Admit that waits.
type waiter struct {
	start   func() (bool, error)
	done    chan outcome // takes one value
	item    *Item
	trying  bool
	kept    bool  // Keep was called
	leaving error // why it wants to leave while it is being tried
}

// outcome is what became of a waiter.
type outcome struct {
	err      error
	panicked any // start's panic, to be raised where it belongs
}

// Admit implements Admitter. Work whose deadline has passed is refused without
// being tried, however much room there is.
func (c *Controller) Admit(ctx context.Context, w Work, start func() (bool, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.closed.Load() {
		return &Error{Reason: Closing, After: time.Second}
	}
	if c.waiting.Load() == 0 && (w.Deadline.IsZero() || time.Now().Before(w.Deadline)) {
		if ok, err := start(); ok || err != nil {
			return err
		}
	}
	v, err := c.join(w, start)
	if err != nil {
		return err
	}
	return c.await(ctx, v)
}

// join puts a waiter into the line and sees to it that it is tried.
func (c *Controller) join(w Work, start func() (bool, error)) (*waiter, error) {
	v := &waiter{start: start, done: make(chan outcome, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil, c.line.refusal(Closing, time.Now())
	}
	it, out, err := c.line.Push(w, time.Now())
	if err != nil {
		return nil, err
	}
	it.Value, v.item = v, it
	if out != nil {
		out.Value.(*waiter).done <- outcome{err: c.line.refusal(QueueFull, time.Now())}
	}
	c.countLocked()
	if !c.running {
		c.running = true
		c.tasks.Go(c.dispatch)
	}
	c.signal()
	return v, nil
}

// await waits for the outcome, for ctx, or for the deadline.
func (c *Controller) await(ctx context.Context, v *waiter) error {
	var late <-chan time.Time
	if d := v.item.Deadline; !d.IsZero() {
		timer := time.NewTimer(time.Until(d))
		defer timer.Stop()
		late = timer.C
	}
	var o outcome
	select {
	case o = <-v.done:
	case <-ctx.Done():
		o = c.leave(v, ctx.Err(), 0)
	case <-late:
		o = c.leave(v, nil, Deadline)
	}
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.err
}

// leave takes a waiter out of the line. If it is just being tried, what
// comes of that counts, unless it did not fit.
func (c *Controller) leave(v *waiter, err error, reason Reason) outcome {
	c.mu.Lock()
	if err == nil {
		err = c.line.refusal(reason, time.Now())
	}
	select {
	case o := <-v.done: // settled meanwhile
		c.mu.Unlock()
		return o
	default:
	}
	if v.trying {
		v.leaving = err
		c.mu.Unlock()
		return <-v.done
	}
	c.line.Remove(v.item, time.Now())
	c.countLocked()
	if c.line.Len() == 0 {
		c.signal() // the dispatcher ends
	}
	c.mu.Unlock()
	return outcome{err: err}
}

// Freed implements Admitter.
func (c *Controller) Freed() {
	if c.waiting.Load() == 0 {
		return
	}
	c.freed.Store(true)
	c.signal()
}

// Close turns everybody away who waits, and everybody who comes. It returns
// once no start is under way on the Controller's behalf; it must not be called
// from start.
func (c *Controller) Close() {
	c.mu.Lock()
	if !c.closed.Swap(true) {
		close(c.closing)
	}
	for _, it := range c.line.Items() {
		if v := it.Value.(*waiter); !v.trying {
			v.done <- outcome{err: c.line.refusal(Closing, time.Now())}
			c.line.Remove(it, time.Now())
		}
	}
	c.countLocked()
	c.signal()
	c.mu.Unlock()
	c.tasks.Wait()
}

// signal wakes the dispatcher. It never blocks.
func (c *Controller) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Controller) countLocked() { c.waiting.Store(int64(c.line.Len())) }

// Stats is a look at the line.
type Stats struct {
	Waiting       int         // entries
	WaitingTokens int         // KV tokens of all entries
	ByTier        []TierStats // tiers with waiting work, by number
	FreeRate      float64     // measured rate at which room appears, in tokens per second; zero if unknown
}

// TierStats is the part of one tier.
type TierStats struct {
	Tier          int // its number; 0 is served first
	Waiting       int // entries
	WaitingTokens int // KV tokens of them
	Tenants       int // with waiting work
}

// Stats returns the state of the line.
func (c *Controller) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Stats{Waiting: c.line.Len(), WaitingTokens: c.line.Tokens(), FreeRate: c.line.FreeRate(time.Now())}
	for _, tr := range c.line.tiers {
		if tr.items > 0 {
			s.ByTier = append(s.ByTier, TierStats{tr.n, tr.items, tr.tokens, len(tr.active)})
		}
	}
	return s
}
