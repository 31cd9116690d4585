package redisquota_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// only is a limit of one window.
func only(rate float64, burst int64, slots int) quota.Limit {
	return quota.Limit{Concurrency: slots, Windows: []quota.Window{{Name: "w", Rate: rate, Burst: burst}}}
}

// balance asks until there is an answer: a busy machine can be taken for a Redis
// that is away.
func balance(t testing.TB, s *redisquota.Store, tenant string) (b quota.Balance) {
	t.Helper()
	redistest.Until(t, "balance of "+tenant, 10*time.Second, func() bool {
		var err error
		b, err = s.Balance(context.Background(), tenant)
		return err == nil
	})
	return b
}

// renew does the same for Renew.
func renew(t testing.TB, s *redisquota.Store, rs ...quota.Reservation) {
	t.Helper()
	redistest.Until(t, "renewed", 10*time.Second, func() bool { return s.Renew(context.Background(), rs) == nil })
}

func spent(b quota.Balance, window string) float64 {
	for _, w := range b.Windows {
		if w.Name == window {
			return w.Spent
		}
	}
	return 0
}

// atRest waits until nothing of the tenant is held and checks that what is
// charged is spent, for a window that does not refill.
func atRest(t testing.TB, s *redisquota.Store, tenant string, charged int64) {
	t.Helper()
	var b quota.Balance
	redistest.Until(t, "nothing is held", 20*time.Second, func() bool {
		var err error
		b, err = s.Balance(context.Background(), tenant)
		return err == nil && b.Running == 0 && b.Charged >= charged && s.Stats().Pending == 0
	})
	if b.Reserved != 0 || b.Charged != charged || spent(b, "w") != float64(charged) {
		t.Errorf("at rest %+v, want %d charged and spent", b, charged)
	}
}

// A reply that is lost after the server did the work is asked for again under the
// same id.
func TestH3LostReplyCountsOnce(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	s, direct := open(t, redisquota.Config{}, proxy.Addr), open(t, redisquota.Config{}, server.Addr)
	ctx := context.Background()
	for i := range 20 {
		r := quota.Reservation{ID: fmt.Sprint(i), Tenant: "t", Limit: only(0, 100_000, 0), Cost: 1000}
		balance(t, s, "t") // the connection is open
		proxy.DropReplies(1)
		if err := s.Reserve(ctx, r); err != nil {
			t.Fatalf("Reserve = %v", err)
		}
		if b := balance(t, direct, "t"); b.Running != 1 || b.Reserved != 1000 {
			t.Fatalf("one reservation of 1000 took %+v", b)
		}
		balance(t, s, "t")
		proxy.DropReplies(1)
		if err := s.Settle(ctx, r, 7); err != nil {
			t.Fatalf("Settle = %v", err)
		}
		if b := balance(t, direct, "t"); b.Running != 0 || b.Charged != int64(7*(i+1)) {
			t.Fatalf("after %d settlements of 7: %+v", i+1, b)
		}
	}
	if proxy.Dropped() != 40 {
		t.Errorf("%d replies were dropped, want 40", proxy.Dropped())
	}
	atRest(t, direct, "t", 140)
}

// A Redis that answers too late: the caller is refused, and what was taken for
// it goes back.
func TestH3LateReplyIsTakenBack(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	s := open(t, redisquota.Config{Timeout: 100 * time.Millisecond}, proxy.Addr)
	direct := open(t, redisquota.Config{}, server.Addr)
	r := quota.Reservation{ID: "1", Tenant: "t", Limit: only(0, 100_000, 0), Cost: 1000}
	proxy.Delay(400 * time.Millisecond)
	err := s.Reserve(context.Background(), r)
	if !errors.Is(err, quota.ErrUnavailable) {
		t.Fatalf("Reserve = %v, want ErrUnavailable", err)
	}
	if b := balance(t, direct, "t"); b.Reserved > 1000 || b.Running > 1 {
		t.Errorf("one reservation of 1000 took %+v", b)
	}
	proxy.Delay(0)
	redistest.Until(t, "redis is back", 10*time.Second, func() bool { st := s.Stats(); return !st.Down && st.Pending == 0 })
	atRest(t, direct, "t", 0)
	if err := s.Reserve(context.Background(), r); verdictOf(err) != quota.Settled {
		t.Errorf("the same id again = %v, want settled", err)
	}
}

func verdictOf(err error) quota.Verdict {
	var e *quota.LimitError
	if errors.As(err, &e) {
		return e.Verdict
	}
	return quota.OK
}

func TestH5ScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redisquota.Config{}, server.Addr)
	ctx := context.Background()
	var wg sync.WaitGroup
	var done atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			for i := range 300 {
				r := quota.Reservation{ID: fmt.Sprint(w, "-", i), Tenant: "t", Limit: only(0, 1e9, 0), Cost: 10}
				if err := s.Reserve(ctx, r); err != nil {
					t.Errorf("Reserve = %v", err)
				}
				if err := s.Settle(ctx, r, 1); err != nil {
					t.Errorf("Settle = %v", err)
				}
				done.Add(1)
			}
		})
	}
	flushes := 0
	for done.Load() < 2400 && !t.Failed() {
		server.Do("SCRIPT", "FLUSH")
		flushes++
	}
	wg.Wait()
	if flushes < 5 {
		t.Errorf("only %d flushes", flushes)
	}
	if st := s.Stats(); st.Down || st.Pending != 0 {
		t.Errorf("Stats = %+v, want nothing noticed", st)
	}
	atRest(t, s, "t", 2400)
}

// Callers that leave at any moment leave nothing behind, and no trail of broken
// connections.
func TestH17CallersLeave(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redisquota.Config{}, server.Addr)
	balance(t, s, "t")
	var wg sync.WaitGroup
	var left atomic.Int64
	for range 50 {
		wg.Go(func() {
			for range 100 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.Int64N(int64(3*time.Millisecond))))
				r := quota.Reservation{ID: fmt.Sprint(rand.Uint64()), Tenant: "t", Limit: only(0, 1e9, 0), Cost: 10}
				err := s.Reserve(ctx, r)
				switch {
				case err == nil:
					err = s.Settle(ctx, r, 0)
				case ctx.Err() != nil:
					err = nil
					left.Add(1)
				}
				if err != nil {
					t.Errorf("unexpected %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	t.Logf("%d of 5000 left before their answer", left.Load())
	atRest(t, s, "t", 0)
	c, _ := allKeys(t, server.Addr)
	info, err := c.Info(context.Background(), "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	if n := infoNumber(t, info, "total_connections_received"); n > 50 {
		t.Errorf("%d connections were made for 5000 calls", n)
	}
}

// The end of a request, its cancellation and its deadline settle it at once, from
// two gateways.
func TestD10SettleOnceOverGateways(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, redisquota.Config{}, server.Addr), open(t, redisquota.Config{}, server.Addr)
	ctx := context.Background()
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			for i := range 500 {
				r := quota.Reservation{ID: fmt.Sprint(w, "-", i), Tenant: "t", Limit: only(0, 1e9, 0), Cost: 100}
				if err := a.Reserve(ctx, r); err != nil {
					t.Errorf("Reserve = %v", err)
				}
				var exits sync.WaitGroup
				for _, s := range []*redisquota.Store{a, b, a} {
					exits.Go(func() {
						if err := s.Settle(ctx, r, 3); err != nil {
							t.Errorf("Settle = %v", err)
						}
					})
				}
				exits.Wait()
			}
		})
	}
	wg.Wait()
	atRest(t, a, "t", 30_000)
}

// Three gateways, 500 reservations of a tenth of the budget at once: ten fit.
func TestH1GatewaysShareOneBudget(t *testing.T) {
	if n := grantedTogether(t, only(0, 10_000, 0)); n != 10 {
		t.Errorf("granted %d, want 10", n)
	}
}

// And a cap of 12 holds over all of them.
func TestH16GatewaysShareOneCap(t *testing.T) {
	if n := grantedTogether(t, only(0, 1e9, 12)); n != 12 {
		t.Errorf("granted %d, want 12", n)
	}
}

func grantedTogether(t *testing.T, limit quota.Limit) int64 {
	server := redistest.Start(t)
	var stores []*redisquota.Store
	for range 3 {
		stores = append(stores, open(t, redisquota.Config{}, server.Addr))
	}
	var granted atomic.Int64
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			r := quota.Reservation{ID: fmt.Sprint(i), Tenant: "t", Limit: limit, Cost: 1000}
			if stores[i%3].Reserve(context.Background(), r) == nil {
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	return granted.Load()
}

// A thousand refusals take nothing: what was left is left to the last token, and
// whoever waits as long as he was told gets through.
func TestH11RefusalsTakeNothing(t *testing.T) {
	s := open(t, redisquota.Config{}, redistest.Start(t).Addr)
	ctx := context.Background()
	try := func(limit quota.Limit, cost int64) error {
		return s.Reserve(ctx, quota.Reservation{ID: unique(), Tenant: limit.Windows[0].Name, Limit: limit, Cost: cost})
	}
	still := quota.Limit{Windows: []quota.Window{{Name: "still", Burst: 1000}}}
	refills := quota.Limit{Windows: []quota.Window{{Name: "refills", Rate: 2000, Burst: 1000}}}
	for _, limit := range []quota.Limit{still, refills} {
		if err := try(limit, 600); err != nil {
			t.Fatal(err)
		}
	}
	var last *quota.LimitError
	for range 1000 {
		if err := try(still, 401); verdictOf(err) != quota.OverQuota {
			t.Fatalf("401 of 400 that are left: %v, want over quota", err)
		}
	}
	if err := try(still, 400); err != nil {
		t.Errorf("all that is left: %v", err)
	}
	redistest.Until(t, "a refusal", 10*time.Second, func() bool { return errors.As(try(refills, 1000), &last) })
	<-time.After(last.After)
	if err := try(refills, 1000); err != nil {
		t.Errorf("after the %v that were named: %v", last.After, err)
	}
}

// Gateways whose clocks are up to ten seconds apart, and jump, hammer one window:
// between any two moments it grants what it should and no more.
func TestH2SkewedClocks(t *testing.T) {
	server := redistest.Start(t)
	var stores []*redisquota.Store
	for i := range 4 {
		skew := []time.Duration{0, 20 * time.Millisecond, -5 * time.Second, 5 * time.Second}[i]
		var calls atomic.Int64
		stores = append(stores, open(t, redisquota.Config{Now: func() time.Time {
			return time.Now().Add(skew).Add(time.Duration(calls.Add(1)%3) * time.Second)
		}}, server.Addr))
	}
	limit := only(100_000, 10_000, 0)
	var mu sync.Mutex
	var es []*ledgerEntry
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 1500 {
				r := quota.Reservation{ID: fmt.Sprint(w, "-", i), Tenant: "t", Limit: limit, Cost: 1 + int64(i%200)}
				e := &ledgerEntry{cost: r.Cost, settled: true, t0: time.Now().UnixNano()}
				err := stores[w%4].Reserve(context.Background(), r)
				e.t1 = time.Now().UnixNano()
				if err == nil {
					mu.Lock()
					es = append(es, e)
					mu.Unlock()
				} else if verdictOf(err) != quota.OverQuota {
					t.Errorf("Reserve = %v", err)
				}
			}
		})
	}
	wg.Wait()
	slices.SortFunc(es, func(a, b *ledgerEntry) int { return cmp.Compare(a.t1, b.t1) })
	checkRate(t, "t", es, limit.Windows[0], false)
}
