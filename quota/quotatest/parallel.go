package quotatest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/expediterhq/expediter/quota"
)

func testParallel(t *testing.T, b *bench) {
	l := limit(0, 10_000, 0)
	var granted atomic.Int64
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			if b.st.Reserve(background, b.res(fmt.Sprint(i), 1000, l)) == nil {
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	if granted.Load() != 10 {
		t.Errorf("%d of 500 reservations of a tenth were granted, want 10", granted.Load())
	}
	b.audit(10, 10_000, 0)
}

func testCap(t *testing.T, b *bench) {
	const slots = 10
	l := limit(0, 1_000_000, slots)
	var running, most, done atomic.Int64
	var wg sync.WaitGroup
	for w := range 30 {
		wg.Go(func() {
			for i := range 20 {
				r := b.res(fmt.Sprint(w, "-", i), 100, l)
				if b.st.Reserve(background, r) != nil {
					continue
				}
				n := running.Add(1)
				for {
					m := most.Load()
					if n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				done.Add(1)
				running.Add(-1)
				if err := b.st.Settle(background, r, 1); err != nil {
					t.Errorf("Settle = %v", err)
				}
			}
		})
	}
	wg.Wait()
	if most.Load() > slots {
		t.Errorf("%d ran at once, want at most %d", most.Load(), slots)
	}
	b.audit(0, 0, done.Load())
	b.room(l, 1_000_000-done.Load())
}

// testSettleRace has the several exits of one request settle it at once.
func testSettleRace(t *testing.T, b *bench) {
	l := limit(0, 1_000_000, 0)
	var wg sync.WaitGroup
	for i := range 100 {
		r := b.res(fmt.Sprint(i), 1000, l)
		b.want(r, quota.OK)
		for range 4 {
			wg.Go(func() {
				if err := b.st.Settle(background, r, 10); err != nil {
					t.Errorf("Settle = %v", err)
				}
			})
		}
		wg.Go(func() {
			if err := b.st.Renew(background, []quota.Reservation{r}); err != nil {
				t.Errorf("Renew = %v", err)
			}
		})
	}
	wg.Wait()
	b.audit(0, 0, 1000)
	b.room(l, 999_000)
}
