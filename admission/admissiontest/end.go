package admissiontest

import (
	"context"
	"errors"
	"testing/synctest"
	"time"
)

// ended says what is wrong with an error that has to be ctx's.
func ended(ctx context.Context, err error) error {
	if !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		return wrong("Admit = %v, want the context's error, %v", err, ctx.Err())
	}
	return nil
}

func endedContext(b *bench) error {
	ctx, cancel := context.WithCancel(background)
	cancel()
	c := b.admit(ctx, plain, yes)
	if err := c.within(prompt); err != nil {
		return err
	}
	if c.tries > 0 {
		return errors.New("start was called though the context had ended before")
	}
	return ended(ctx, c.err)
}

func contextEndsWhileWaiting(b *bench) error {
	cancelled, cancel := context.WithCancel(background)
	defer cancel()
	timed, stop := context.WithTimeout(background, time.Second)
	defer stop()
	for _, ctx := range []context.Context{cancelled, timed} {
		c := b.admit(ctx, plain, no)
		synctest.Wait()
		cancel()
		if err := c.within(time.Second + prompt); err != nil {
			return err
		}
		if err := ended(ctx, c.err); err != nil {
			return err
		}
	}
	return b.admit(background, plain, yes).want()
}

// slow is a start whose n-th call takes a second and then reports ok.
func slow(at int, ok bool) func(n int) (bool, error) {
	return func(n int) (bool, error) {
		if n != at {
			return false, nil
		}
		time.Sleep(time.Second)
		return ok, nil
	}
}

func contextEndsWhileStarting(b *bench) error {
	for _, at := range []int{1, 2} {
		for _, ok := range []bool{true, false} {
			ctx, cancel := context.WithCancel(background)
			c := b.admit(ctx, plain, slow(at, ok))
			if at > 1 {
				synctest.Wait()
				b.Admitter.Freed()
			}
			time.Sleep(time.Second / 2)
			cancel()
			if err := c.within(time.Second); err != nil {
				return err
			}
			if ok && c.err != nil {
				return wrong("Admit = %v, though start reported true", c.err)
			}
			if !ok {
				if err := ended(ctx, c.err); err != nil {
					return err
				}
			}
		}
	}
	return b.admit(background, plain, yes).want()
}

func deadline(b *bench) error {
	for _, d := range []time.Duration{-time.Second, 0, 10 * time.Second} {
		w := plain
		w.Deadline = time.Now().Add(d)
		c := b.admit(background, w, no)
		if err := c.within(max(d, 0) + prompt); err != nil {
			return wrong("deadline in %v: %w", d, err)
		}
		if err := refused(c.err, false); err != nil {
			return wrong("deadline in %v: %w", d, err)
		}
	}
	w := plain
	w.Deadline = time.Now().Add(10 * time.Second)
	return b.admit(background, w, yes).want()
}

func deadlineWhileStarting(b *bench) error {
	for _, at := range []int{1, 2} {
		for _, ok := range []bool{true, false} {
			w := plain
			w.Deadline = time.Now().Add(time.Second / 2)
			c := b.admit(background, w, slow(at, ok))
			if at > 1 {
				synctest.Wait()
				b.Admitter.Freed()
			}
			if err := c.within(time.Second + prompt); err != nil {
				return err
			}
			if ok && c.err != nil {
				return wrong("Admit = %v, though start reported true", c.err)
			}
			if !ok {
				if err := refused(c.err, false); err != nil {
					return err
				}
			}
		}
	}
	return b.admit(background, plain, yes).want()
}

func closing(b *bench) error {
	if b.Close == nil {
		return errLeftOut
	}
	waits := b.admit(background, plain, no)
	starts := b.admit(background, plain, slow(2, true))
	synctest.Wait()
	b.Admitter.Freed()
	time.Sleep(time.Second / 2)
	b.Close()
	comes := b.admit(background, plain, yes)
	for _, c := range []*call{waits, comes} {
		if err := c.within(prompt); err != nil {
			return err
		}
		if err := refused(c.err, true); err != nil {
			return err
		}
	}
	if err := starts.within(time.Second); err != nil {
		return err
	}
	if starts.granted != (starts.err == nil) {
		return wrong("closed while start was under way: Admit = %v, though start reported %v", starts.err, starts.granted)
	}
	return nil
}
