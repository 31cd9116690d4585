package admissiontest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// pool is room that is taken and given back.
type pool struct {
	mu       sync.Mutex
	free     int
	admitted int // tokens of works that Admit returned nil for and that have not ended
}

const poolTokens = 40

func (p *pool) take(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free < n {
		return false
	}
	p.free -= n
	return true
}

func (p *pool) add(free, admitted int) (over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += free
	p.admitted += admitted
	return p.admitted > poolTokens
}

// traffic: many callers at once, of whom some leave. All room is back at the
// end, never more was in use than there is, and who waits long enough starts.
func traffic(b *bench) error {
	p := &pool{free: poolTokens}
	var mu sync.Mutex
	var first error
	fail := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = wrong(format, args...)
		}
	}
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for range 30 {
				if err := b.request(p, rnd); err != nil {
					fail("%w", err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { callers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Hour):
		fail("some wait for an hour, though there is room")
	}
	if p.add(0, 0); first == nil && (p.free != poolTokens || p.admitted != 0) {
		fail("%d of %d tokens are free at the end, %d are admitted", p.free, poolTokens, p.admitted)
	}
	mu.Lock()
	defer mu.Unlock()
	return first
}

// request is one work of a caller, from Admit to its end.
func (b *bench) request(p *pool, rnd *rand.Rand) error {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	w := plain
	w.Tenant, w.Tier, w.Tokens = string(rune('a'+rnd.IntN(3))), rnd.IntN(2), 1+rnd.IntN(20)
	leaves := rnd.IntN(4) == 0
	if leaves {
		time.AfterFunc(time.Duration(rnd.IntN(20))*time.Millisecond, cancel)
	}
	if late := rnd.IntN(4) == 0; late {
		w.Deadline, leaves = time.Now().Add(time.Duration(rnd.IntN(30))*time.Millisecond), true
	}
	c := &call{says: func(int) (bool, error) { return p.take(w.Tokens), nil }, done: make(chan struct{})}
	w.Keep = c.keep
	c.run(ctx, b.Admitter, w)
	if err := c.check(); err != nil {
		return err
	}
	if c.err != nil {
		if !leaves {
			return wrong("Admit = %w, want a start", c.err)
		}
		return nil
	}
	if p.add(0, w.Tokens) {
		return wrong("more is admitted than %d tokens", poolTokens)
	}
	time.Sleep(time.Duration(rnd.IntN(5)) * time.Millisecond)
	p.add(w.Tokens, -w.Tokens)
	b.Admitter.Freed()
	return nil
}
