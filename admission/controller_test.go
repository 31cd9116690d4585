package admission_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/admission"
)

// gate is a pool of tokens that says when some come back.
type gate struct {
	c    *admission.Controller
	mu   sync.Mutex
	free int
}

// take returns a start function that claims tokens.
func (g *gate) take(tokens int) func() (bool, error) {
	return func() (bool, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.free < tokens {
			return false, nil
		}
		g.free -= tokens
		return true, nil
	}
}

func (g *gate) give(tokens int) {
	g.mu.Lock()
	g.free += tokens
	g.mu.Unlock()
	g.c.Freed()
}

func newGate(t *testing.T, cfg admission.Config, free int) *gate {
	t.Helper()
	c, err := admission.NewController(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &gate{c: c, free: free}
}

func reason(err error) admission.Reason {
	if e := (*admission.Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return 0
}

func TestFastPathAllocatesNothing(t *testing.T) {
	g := newGate(t, admission.Config{}, 1<<30)
	ctx, begin := context.Background(), g.take(1)
	w := admission.Work{Tenant: "t", Tokens: 1, Deadline: time.Now().Add(time.Hour)}
	if n := testing.AllocsPerRun(100, func() {
		if err := g.c.Admit(ctx, w, begin); err != nil {
			t.Fatal(err)
		}
		g.c.Freed()
	}); n != 0 {
		t.Errorf("Admit allocates %v times while nobody waits, want none", n)
	}
}

func TestErrorsOfStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, admission.Config{}, 0)
		broken := errors.New("broken")
		if err := g.c.Admit(t.Context(), admission.Work{}, func() (bool, error) { return false, broken }); err != broken {
			t.Errorf("Admit = %v, want %v", err, broken)
		}
		calls := 0
		err := g.c.Admit(t.Context(), admission.Work{}, func() (bool, error) {
			calls++
			if calls < 3 {
				g.c.Freed()
				return false, nil
			}
			return false, broken
		})
		if err != broken || calls != 3 {
			t.Errorf("Admit = %v after %d calls, want %v after 3", err, calls, broken)
		}
		synctest.Wait()
		if s := g.c.Stats(); s.Waiting != 0 || s.WaitingTokens != 0 || s.ByTier != nil {
			t.Errorf("Stats = %+v, want an empty line", s)
		}
	})
}

func TestPanicOfStartStaysWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, admission.Config{}, 0)
		var got any
		go func() {
			defer func() { got = recover() }()
			calls := 0
			_ = g.c.Admit(t.Context(), admission.Work{}, func() (bool, error) {
				if calls++; calls > 1 {
					panic("boom")
				}
				return false, nil
			})
		}()
		var err error
		go func() { err = g.c.Admit(t.Context(), admission.Work{Tokens: 5}, g.take(5)) }()
		synctest.Wait()
		g.give(5)
		synctest.Wait()
		if got != "boom" || err != nil {
			t.Errorf("panic %v, other %v, want boom and nil", got, err)
		}
	})
}

func TestK5DeadlineInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, admission.Config{}, 0)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				d := time.Duration(100+4*i) * time.Millisecond
				started := time.Duration(-1)
				w := admission.Work{Tenant: "t", Tokens: 10, Deadline: began.Add(d)}
				err := g.c.Admit(t.Context(), w, func() (bool, error) {
					ok, err := g.take(10)()
					if ok {
						started = time.Since(began)
					}
					return ok, err
				})
				if reason(err) != admission.Deadline || time.Since(began) != d || started >= 0 {
					t.Errorf("Admit = %v after %v (started %v), want a refusal at %v", err, time.Since(began), started, d)
				}
				if e := err.(*admission.Error); e.RetryAfter() < time.Second {
					t.Errorf("RetryAfter = %v, want whole seconds, at least one", e.RetryAfter())
				}
			})
		}
		time.Sleep(time.Second)
		g.give(1 << 20)
		wg.Wait()
		if g.free != 1<<20 {
			t.Errorf("%d tokens taken, want 0", 1<<20-g.free)
		}
	})
}

func TestE5ClientLeavesWhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, admission.Config{}, 0)
		var order []int
		var mu sync.Mutex
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancelCause(t.Context())
		for i := range 200 {
			leaves := i%4 != 0 // 150 of them
			wg.Go(func() {
				ctx := ctx
				if !leaves {
					ctx = t.Context()
				}
				err := g.c.Admit(ctx, admission.Work{Tenant: "t", Tokens: 10}, func() (bool, error) {
					ok, err := g.take(10)()
					if ok {
						mu.Lock()
						order = append(order, i)
						mu.Unlock()
					}
					return ok, err
				})
				if leaves != errors.Is(err, context.Canceled) {
					t.Errorf("request %d: Admit = %v, want nil", i, err)
				}
			})
			synctest.Wait()
		}
		cancel(nil)
		synctest.Wait()
		if s := g.c.Stats(); s.Waiting != 50 || s.WaitingTokens != 500 {
			t.Errorf("Stats = %+v, want 50 of 500 tokens", s)
		}
		for range 50 {
			g.give(10)
			synctest.Wait()
		}
		wg.Wait()
		for i, n := range order {
			if n != 4*i {
				t.Fatalf("order %v, want 0, 4, 8, ...", order)
			}
		}
		if len(order) != 50 {
			t.Errorf("%d started, want 50", len(order))
		}
	})
}

// TestLeaveWhileTried: the client leaves, or the time ends, during a call of
// start. What start says counts.
func TestLeaveWhileTried(t *testing.T) {
	for _, starts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(t, admission.Config{}, 0)
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			err := g.c.Admit(ctx, admission.Work{}, func() (bool, error) {
				if calls++; calls == 1 {
					return false, nil
				}
				cancel()
				time.Sleep(time.Second)
				return starts, nil
			})
			if starts && err != nil || !starts && !errors.Is(err, context.Canceled) {
				t.Errorf("starts %v: Admit = %v, want nil if it starts, else the context's error", starts, err)
			}
			if s := g.c.Stats(); s.Waiting != 0 {
				t.Errorf("Stats = %+v, want an empty line", s)
			}
		})
	}
}

func TestQ7QueueAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, admission.Config{}, 0)
		var refused atomic.Int64
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				err := g.c.Admit(t.Context(), admission.Work{Tokens: 1, Deadline: time.Now().Add(time.Minute)}, g.take(1))
				if reason(err) == admission.Closing && err.(*admission.Error).RetryAfter() >= time.Second {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		g.c.Close()
		wg.Wait()
		if refused.Load() != 500 || time.Since(began) != 0 {
			t.Errorf("%d refused after %v, want 500 at once", refused.Load(), time.Since(began))
		}
		if err := g.c.Admit(t.Context(), admission.Work{}, g.take(0)); reason(err) != admission.Closing {
			t.Errorf("Admit after Close = %v, want Closing", err)
		}
		g.c.Freed()
		g.c.Close()
	})
}

func TestK1SmallWorkOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, admission.Config{}, 5000)
		began := time.Now()
		var wg sync.WaitGroup
		run := func(tokens int, busy, within time.Duration) {
			wg.Go(func() {
				w := admission.Work{Tenant: "t", Tokens: tokens, Deadline: began.Add(30 * time.Second)}
				if err := g.c.Admit(t.Context(), w, g.take(tokens)); err != nil || time.Since(began) > within {
					t.Errorf("%d tokens: %v after %v, want within %v", tokens, err, time.Since(began), within)
				}
				time.Sleep(busy)
				g.give(tokens)
			})
		}
		run(100_000, time.Second, 5*time.Second)
		synctest.Wait()
		for range 200 {
			run(200, 10*time.Millisecond, 100*time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		g.give(95_000)
		wg.Wait()
	})
}

// TestK8Flood: far more than the line may hold arrives at once.
func TestK8Flood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1000
		g := newGate(t, admission.Config{MaxWaiting: most, MaxWaitingTokens: 100_000}, 4000)
		began := time.Now()
		var wg sync.WaitGroup
		var served, full, late atomic.Int64
		peak := 0
		for i := range 20_000 {
			wg.Go(func() {
				arrived := time.Now()
				w := admission.Work{Tenant: fmt.Sprint(i % 50), Tokens: 100 + i%50, Input: 100, Deadline: arrived.Add(10 * time.Second)}
				err := g.c.Admit(t.Context(), w, g.take(w.Tokens))
				switch reason(err) {
				case 0:
					served.Add(1)
					time.Sleep(100 * time.Millisecond)
					g.give(w.Tokens)
				case admission.QueueFull:
					full.Add(1)
				case admission.Deadline:
					late.Add(1)
					if d := time.Since(arrived); d != 0 && d != 10*time.Second {
						t.Errorf("refused for its deadline after %v", d)
					}
				}
			})
			if i%100 == 99 {
				s := g.c.Stats()
				peak = max(peak, s.Waiting)
				if s.WaitingTokens > 100_000 {
					t.Errorf("%d tokens wait", s.WaitingTokens)
				}
				time.Sleep(5 * time.Millisecond) // all within a second
			}
		}
		flooded := time.Now()
		wg.Wait()
		if peak > most || peak < most/2 {
			t.Errorf("%d waited at most, want up to %d", peak, most)
		}
		if d := time.Since(flooded); d > 5*time.Second {
			t.Errorf("recovered after %v, want 5s", d)
		}
		if n := served.Load() + full.Load() + late.Load(); n != 20_000 || served.Load() < 1000 || full.Load() < 10_000 {
			t.Errorf("%d served, %d full, %d late in %v", served.Load(), full.Load(), late.Load(), time.Since(began))
		}
		if g.free != 4000 {
			t.Errorf("%d tokens free at rest, want 4000", g.free)
		}
	})
}

// TestNothingIsLost: random arrivals, cancels, deadlines and panics, in real
// goroutines; at rest everything is back.
func TestNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, admission.Config{MaxWaiting: 200, ReserveAfter: 50 * time.Millisecond, Backfill: 0.5}, 10_000)
		rnd := rand.New(rand.NewPCG(1, 2))
		var wg sync.WaitGroup
		for i := range 3000 {
			tokens, busy := 1+rnd.IntN(4000), time.Duration(rnd.IntN(100))*time.Millisecond
			w := admission.Work{Tenant: fmt.Sprint(rnd.IntN(9)), Tier: rnd.IntN(3), Tokens: tokens, Input: tokens, Retry: i%7 == 0}
			if rnd.IntN(2) == 0 {
				w.Deadline = time.Now().Add(time.Duration(rnd.IntN(2000)) * time.Millisecond)
			}
			patience := time.Duration(rnd.IntN(4000)) * time.Millisecond
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				began, calls, started := time.Now(), 0, false
				err := g.c.Admit(ctx, w, func() (bool, error) {
					if started {
						t.Error("start was called after it succeeded")
					}
					if !w.Deadline.IsZero() && time.Now().After(w.Deadline) {
						t.Error("start was called after the deadline")
					}
					calls++
					ok, err := g.take(tokens)()
					started = ok
					return ok, err
				})
				if (err == nil) != started {
					t.Errorf("Admit = %v after start said %v", err, started)
				}
				if d := time.Since(began); d > patience {
					t.Errorf("Admit returned after %v, want at most %v", d, patience)
				}
				if started {
					time.Sleep(busy)
					g.give(tokens)
				}
			})
			time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
		}
		wg.Wait()
		synctest.Wait()
		if s := g.c.Stats(); s.Waiting != 0 || s.WaitingTokens != 0 || g.free != 10_000 {
			t.Errorf("at rest: %+v, %d free", s, g.free)
		}
	})
}

// TestNewsOfNoRoomIsCheap: room is said to appear all the time, and never
// does.
func TestNewsOfNoRoomIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, admission.Config{}, 0)
		var calls atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = g.c.Admit(ctx, admission.Work{}, func() (bool, error) {
				calls.Add(1)
				return g.take(1)()
			})
		})
		for range 10_000 {
			g.c.Freed()
			time.Sleep(10 * time.Microsecond)
		}
		if n := calls.Load(); n < 150 || n > 250 {
			t.Errorf("start was called %d times in 100 ms, want about 200", n)
		}
		began := time.Now()
		g.give(1)
		wg.Wait()
		if d := time.Since(began); d > time.Millisecond {
			t.Errorf("started %v after room appeared", d)
		}
		cancel()
	})
}
