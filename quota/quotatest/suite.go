package quotatest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// Suite says how to open a store and what can be done to it.
type Suite struct {
	// Open returns a store for one test, which ends it by t.Cleanup. Stores opened
	// for different tests may share their state.
	Open func(t *testing.T) quota.Store
	// Advance moves the clock that the store reads, back when d is negative. If
	// nil, the tests let time pass, and those that need a clock to jump are left
	// out.
	Advance func(d time.Duration)
	// Histories is how many concurrent histories are checked. If zero, 200.
	Histories int
	// Lease is the lease used where one has to run out in real time; it must be
	// long against the time a call takes. If zero, 500 ms.
	Lease time.Duration
}

// Run checks the stores that open returns, in real time.
func Run(t *testing.T, open func(t *testing.T) quota.Store) {
	Suite{Open: open}.Run(t)
}

// Run runs all tests of the suite.
func (s Suite) Run(t *testing.T) {
	if s.Histories == 0 {
		s.Histories = 200
	}
	if s.Lease == 0 {
		s.Lease = 500 * time.Millisecond
	}
	for _, tt := range []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"refusals take nothing", testRefusals},
		{"settle gives back the rest", testSettle},
		{"settle counts once", testIdempotent},
		{"late reserve takes nothing", testLateReserve},
		{"unknown id is charged", testUnknown},
		{"several windows", testWindows},
		{"limits change in flight", testLimitChange},
		{"refill", testRefill},
		{"rate changes", testRateChange},
		{"lease runs out", testLease},
		{"renew keeps a lease", testRenew},
		{"holder was only slow", testSlowHolder},
		{"used survives the holder", testUsed},
		{"names cannot collide", testNames},
		{"large amounts", testLarge},
		{"context", testContext},
		{"parallel reserves", testParallel},
		{"concurrency cap", testCap},
		{"settle races", testSettleRace},
		{"clock jumps", testJumps},
		{"random sequence", testSequence},
		{"linearizable", testLinearizable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.run(t, &bench{Suite: s, t: t, st: s.Open(t), tenant: unique()})
		})
	}
}

var serial atomic.Int64

// unique returns a name nobody has used, in this process or another.
func unique() string { return fmt.Sprintf("%x-%d", time.Now().UnixNano(), serial.Add(1)) }

// bench is one test's store, with helpers.
type bench struct {
	Suite
	t      *testing.T
	st     quota.Store
	tenant string
}

var background = context.Background()

// limit is one window named w.
func limit(rate float64, burst int64, slots int) quota.Limit {
	return quota.Limit{Concurrency: slots, Windows: []quota.Window{{Name: "w", Rate: rate, Burst: burst}}}
}

func (b *bench) res(id string, cost int64, l quota.Limit) quota.Reservation {
	return quota.Reservation{ID: id, Tenant: b.tenant, Limit: l, Cost: cost, Lease: time.Hour}
}

// want reserves and checks the verdict.
func (b *bench) want(r quota.Reservation, v quota.Verdict) *quota.LimitError {
	b.t.Helper()
	err := b.st.Reserve(background, r)
	var e *quota.LimitError
	switch {
	case err == nil:
		e = &quota.LimitError{}
	case !errors.As(err, &e):
		b.t.Fatalf("Reserve(%q, cost %d) = %v, want %v", r.ID, r.Cost, err, v)
	}
	if e.Verdict != v {
		b.t.Fatalf("Reserve(%q, cost %d) = %v, want %v", r.ID, r.Cost, err, v)
	}
	return e
}

func (b *bench) settle(r quota.Reservation, used int64) {
	b.t.Helper()
	if err := b.st.Settle(background, r, used); err != nil {
		b.t.Fatalf("Settle(%q, %d) = %v", r.ID, used, err)
	}
}

func (b *bench) renew(rs ...quota.Reservation) {
	b.t.Helper()
	if err := b.st.Renew(background, rs); err != nil {
		b.t.Fatalf("Renew = %v", err)
	}
}

// room checks that exactly n tokens fit into l, a limit whose rate is 0.
func (b *bench) room(l quota.Limit, n int64) {
	b.t.Helper()
	probe := b.res(unique(), n+1, l)
	if err := b.st.Reserve(background, probe); err == nil {
		b.t.Fatalf("%d tokens fit, want %d to be the most", n+1, n)
	}
	if n == 0 {
		return
	}
	probe = b.res(unique(), n, l)
	if err := b.st.Reserve(background, probe); err != nil {
		b.t.Fatalf("%d tokens do not fit: %v", n, err)
	}
	b.settle(probe, 0)
}

// audit checks the balance where the store can tell it.
func (b *bench) audit(running int, reserved, charged int64) {
	b.t.Helper()
	a, ok := b.st.(quota.Auditor)
	if !ok {
		return
	}
	got, err := a.Balance(background, b.tenant)
	if err != nil {
		b.t.Fatalf("Balance = %v", err)
	}
	if got.Running != running || got.Reserved != reserved || got.Charged != charged {
		b.t.Fatalf("Balance = %d running, %d reserved, %d charged; want %d, %d, %d",
			got.Running, got.Reserved, got.Charged, running, reserved, charged)
	}
	for _, w := range got.Windows {
		if w.Spent < 0 || math.IsNaN(w.Spent) {
			b.t.Fatalf("window %q has spent %v", w.Name, w.Spent)
		}
	}
}

// pass lets d pass for the store.
func (b *bench) pass(d time.Duration) {
	if b.Advance != nil {
		b.Advance(d)
		return
	}
	<-time.After(d)
}

// until polls cond while time passes, and fails after d.
func (b *bench) until(d time.Duration, what string, cond func() bool) {
	b.t.Helper()
	step := d / 100
	for range 100 {
		if cond() {
			return
		}
		b.pass(step)
	}
	b.t.Fatalf("not within %v: %s", d, what)
}
