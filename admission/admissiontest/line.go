package admissiontest

import (
	"context"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// keep: large work is passed by small work for a minute, which is reason to
// call Keep, once. Whether it is called is the Admitter's own affair.
func keep(b *bench) error {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var large []*call
	for range 3 {
		w := plain
		w.Tenant, w.Tokens = "large", 40
		c := &call{says: func(int) (bool, error) { time.Sleep(time.Millisecond); return false, nil }, done: make(chan struct{})}
		w.Keep = c.keep
		b.calls = append(b.calls, c)
		large = append(large, c)
		go c.run(ctx, b.Admitter, w)
	}
	for range 600 {
		small := b.admit(background, plain, func(n int) (bool, error) { return n > 1, nil })
		synctest.Wait()
		b.Admitter.Freed()
		if err := small.within(time.Second); err != nil {
			return err
		}
		time.Sleep(prompt)
	}
	cancel()
	for _, c := range large {
		if err := c.within(time.Second); err != nil {
			return err
		}
	}
	return nil
}

// crowd admits n works that find no room.
func crowd(ctx context.Context, b *bench, n int) []*call {
	var cs []*call
	for range n {
		cs = append(cs, b.admit(ctx, plain, no))
		synctest.Wait()
	}
	time.Sleep(time.Second)
	return cs
}

func bounds(b *bench) error {
	if b.MaxWaiting == 0 {
		return errLeftOut
	}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	waiting := 0
	for _, c := range crowd(ctx, b, b.MaxWaiting+20) {
		if !c.returned() {
			waiting++
		} else if err := refused(c.err, false); err != nil {
			return err
		}
	}
	if waiting != b.MaxWaiting {
		return wrong("%d wait, want %d", waiting, b.MaxWaiting)
	}
	cancel()
	time.Sleep(time.Second)
	var room atomic.Bool
	c := b.admit(background, plain, func(int) (bool, error) { return room.Load(), nil })
	time.Sleep(time.Second)
	if c.returned() {
		return wrong("Admit = %v, want it to wait in a line that all others left", c.err)
	}
	room.Store(true)
	b.Admitter.Freed()
	return c.want()
}

func retryIsNotBounded(b *bench) error {
	if b.MaxWaiting == 0 {
		return errLeftOut
	}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	crowd(ctx, b, b.MaxWaiting)
	w := plain
	w.Retry = true
	c := b.admit(ctx, w, no)
	time.Sleep(time.Second)
	if c.returned() {
		return wrong("Admit of a retry = %v, want it to wait in a full line", c.err)
	}
	return nil
}
