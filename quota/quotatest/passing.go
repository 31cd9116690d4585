package quotatest

import (
	"fmt"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
)

func testRefill(t *testing.T, b *bench) {
	l := limit(1000, 500, 0)
	for i := range 3 {
		r := b.res(fmt.Sprint("all", i), 500, l)
		b.want(r, quota.OK)
		e := b.want(b.res(unique(), 500, l), quota.OverQuota)
		if e.After <= 0 || e.After > 502*time.Millisecond {
			t.Fatalf("After = %v, want at most 500 ms", e.After)
		}
		// A refusal takes nothing: after the promised wait the same request fits.
		for range 100 {
			if err := b.st.Reserve(background, b.res(unique(), 500, l)); err == nil {
				t.Fatal("fits too early")
			}
			if b.Advance == nil && e.After < 300*time.Millisecond {
				break
			}
		}
		e = b.want(b.res(unique(), 500, l), quota.OverQuota)
		b.pass(e.After)
	}
	// Refunds and refill never exceed the burst.
	b.want(b.res("held", 500, l), quota.OK)
	b.pass(600 * time.Millisecond)
	b.settle(b.res("held", 500, l), 0)
	b.room(limit(0, 500, 0), 500)
}

// testRateChange raises the rate of a window that is used up: the wait that a
// refusal names under the new rate is enough, and the time before is not counted
// at the new rate.
func testRateChange(t *testing.T, b *bench) {
	slow, fast := limit(0, 1000, 0), limit(2000, 1000, 0)
	b.want(b.res("all", 1000, slow), quota.OK)
	b.pass(300 * time.Millisecond)
	e := b.want(b.res(unique(), 500, fast), quota.OverQuota)
	if e.After < 200*time.Millisecond || e.After > 300*time.Millisecond {
		t.Fatalf("After = %v, want 250 ms", e.After)
	}
	b.pass(e.After)
	b.want(b.res("half", 500, fast), quota.OK)
	// And lowers it again.
	b.want(b.res(unique(), 1000, slow), quota.OverQuota)
	if b.Advance != nil {
		b.pass(time.Minute)
		b.room(slow, 0)
	}
}

func testLease(t *testing.T, b *bench) {
	l := limit(0, 1000, 2)
	dead, live := b.res("dead", 300, l), b.res("live", 200, l)
	dead.Lease = b.Lease
	b.want(live, quota.OK)
	start := time.Now()
	b.want(dead, quota.OK)
	b.pass(b.Lease / 2)
	err := b.st.Reserve(background, b.res("x", 500, l))
	if b.Advance != nil || time.Since(start) < b.Lease {
		if err == nil {
			t.Fatal("the slot was free before its lease was over")
		}
	}
	b.until(2*b.Lease, "the dead holder's slot is free", func() bool {
		return b.st.Reserve(background, b.res("next", 800, l)) == nil
	})
	b.want(b.res("y", 1, l), quota.OverQuota)
	b.audit(2, 1000, 0)
	b.want(dead, quota.Settled)
}

func testRenew(t *testing.T, b *bench) {
	l := limit(0, 1000, 2)
	r, other := b.res("r", 300, l), b.res("other", 300, l)
	r.Lease, other.Lease = 2*b.Lease, 2*b.Lease
	b.want(r, quota.OK)
	b.want(other, quota.OK)
	for range 6 {
		b.pass(b.Lease / 2)
		b.renew(r, other)
	}
	b.want(b.res("x", 1, l), quota.OverConcurrency)
	b.audit(2, 600, 0)
	bad := r
	bad.Cost = -5
	if err := b.st.Renew(background, []quota.Reservation{bad, other}); err == nil {
		t.Error("Renew of a cost below zero was accepted")
	}
	b.settle(r, 0)
	b.settle(other, 0)
	b.room(l, 1000)
}

func testSlowHolder(t *testing.T, b *bench) {
	l := limit(0, 1000, 1)
	expire := func(id string, used int64) quota.Reservation {
		r := b.res(id, 600, l)
		r.Lease, r.Used = b.Lease/5, used
		b.want(r, quota.OK)
		b.pass(b.Lease)
		return r
	}
	// Settled after its end: what was given back too much is taken again.
	r := expire("settled late", 100)
	b.audit(0, 0, 100)
	b.room(l, 900)
	b.settle(r, 400)
	b.settle(r, 400)
	b.room(l, 600)
	b.audit(0, 0, 400)
	r = expire("settled for less", 50)
	b.settle(r, 0)
	b.room(l, 600)
	b.audit(0, 0, 400)
	// Renewed after its end: held again.
	r = expire("renewed late", 70)
	b.audit(0, 0, 470)
	r.Lease, r.Used = time.Hour, 80
	b.renew(r)
	b.audit(1, 600, 400)
	b.want(b.res("x", 1, l), quota.OverQuota)
	b.settle(r, 90)
	b.audit(0, 0, 490)
	b.room(l, 510)
}

func testUsed(t *testing.T, b *bench) {
	l := limit(0, 1000, 0)
	r := b.res("r", 600, l)
	r.Used, r.Lease = 100, 2*b.Lease
	b.want(r, quota.OK)
	r.Used, r.Lease = 250, b.Lease/5
	b.renew(r)
	r.Used = 200 // what is known to be used only grows
	b.renew(r)
	b.pass(b.Lease)
	b.room(l, 750)
	b.audit(0, 0, 250)
}

func testJumps(t *testing.T, b *bench) {
	if b.Advance == nil {
		t.Skip("this store's clock cannot be moved")
	}
	l := limit(100, 1000, 0)
	var granted int64
	spend := func() {
		for b.st.Reserve(background, b.res(unique(), 10, l)) == nil {
			granted += 10
		}
	}
	spend()
	for range 20 { // two clocks, five seconds apart, in turn
		b.Advance(-5 * time.Second)
		spend()
		b.Advance(5 * time.Second)
		spend()
	}
	if granted != 1000 {
		t.Errorf("granted %d while no time passed, want 1000", granted)
	}
	b.Advance(time.Second)
	spend()
	if granted != 1100 {
		t.Errorf("granted %d after a second, want 1100", granted)
	}
	b.Advance(-48 * time.Hour) // set right after it was wrong for long
	spend()
	b.Advance(2 * time.Second)
	spend()
	if granted != 1300 {
		t.Errorf("granted %d after a large step back and two seconds, want 1300", granted)
	}
	b.Advance(1000 * time.Hour)
	spend()
	if granted != 2300 {
		t.Errorf("granted %d after a large step forward, want one burst more", granted)
	}
}
