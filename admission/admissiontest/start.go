package admissiontest

import (
	"errors"
	"sync/atomic"
	"testing/synctest"
	"time"
)

func startsAtOnce(b *bench) error {
	for range 3 {
		c := b.admit(background, plain, yes)
		if err := c.want(); err != nil {
			return err
		}
		if c.tries != 1 {
			return wrong("start was called %d times, want once", c.tries)
		}
	}
	return nil
}

func waitsForRoom(b *bench) error {
	var room atomic.Bool
	c := b.admit(background, plain, func(int) (bool, error) { return room.Load(), nil })
	for range 3 {
		time.Sleep(time.Second)
		b.Admitter.Freed() // room that is too small
	}
	synctest.Wait()
	if c.returned() {
		return wrong("Admit = %v, though start reported false", c.err)
	}
	room.Store(true)
	b.Admitter.Freed()
	return c.want()
}

func startFails(b *bench) error {
	broken := errors.New("broken")
	for _, at := range []int{1, 2} {
		c := b.admit(background, plain, func(n int) (bool, error) {
			if n == at {
				return false, broken
			}
			return false, nil
		})
		synctest.Wait()
		b.Admitter.Freed()
		if err := c.within(prompt); err != nil {
			return err
		}
		if !errors.Is(c.err, broken) {
			return wrong("Admit = %v, want start's error", c.err)
		}
	}
	return b.admit(background, plain, yes).want()
}

func startPanics(b *bench) error {
	for _, at := range []int{1, 2} {
		c := b.admit(background, plain, func(n int) (bool, error) {
			if n == at {
				panic(disco)
			}
			return false, nil
		})
		synctest.Wait()
		b.Admitter.Freed()
		if err := c.within(prompt); err != nil {
			return err
		}
		if c.raise != disco {
			return wrong("start panicked, and Admit = %v with panic %v, want the same panic", c.err, c.raise)
		}
	}
	return b.admit(background, plain, yes).want()
}

func oneStartAtATime(b *bench) error {
	c := b.admit(background, plain, func(n int) (bool, error) {
		time.Sleep(10 * time.Millisecond)
		return n == 20, nil
	})
	for range 1000 {
		time.Sleep(time.Millisecond)
		b.Admitter.Freed()
	}
	return c.want()
}

// newsWhileStarting: start looks, room appears, start reports that it saw none.
func newsWhileStarting(b *bench) error {
	for _, slow := range []int{1, 2} {
		var room atomic.Bool
		c := b.admit(background, plain, func(n int) (bool, error) {
			saw := room.Load()
			if n == slow {
				time.Sleep(2 * time.Second)
			}
			return saw, nil
		})
		if slow > 1 {
			synctest.Wait()
			b.Admitter.Freed()
		}
		time.Sleep(time.Second)
		room.Store(true)
		b.Admitter.Freed()
		time.Sleep(time.Second)
		if err := c.want(); err != nil {
			return wrong("room appeared while start was called for the %d. time: %w", slow, err)
		}
	}
	return nil
}

func freedDoesNotBlock(b *bench) error {
	began := time.Now()
	for range 100 {
		b.Admitter.Freed() // nobody waits
	}
	c := b.admit(background, plain, func(n int) (bool, error) {
		time.Sleep(time.Minute)
		return n == 2, nil
	})
	synctest.Wait()
	for range 100 {
		b.Admitter.Freed() // start is under way
	}
	if d := time.Since(began); d > 0 {
		return wrong("Freed took %v, want no time", d)
	}
	return c.within(2*time.Minute + prompt)
}

// freedFromStart: no lock is held while start is called that Freed needs.
func freedFromStart(b *bench) error {
	if b.Close != nil {
		defer b.Close()
	}
	c := &call{done: make(chan struct{}), says: func(n int) (bool, error) {
		b.Admitter.Freed()
		return n == 5, nil
	}}
	c.run(background, b.Admitter, plain)
	return c.check()
}
