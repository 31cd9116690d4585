package quota_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/tenant"
)

// A tenant with a window per minute, one per day, and one for a costly model.
func ExampleMemory() {
	store := quota.NewMemory(quota.MemoryConfig{})
	ctx := context.Background()
	limit := quota.Limit{
		Concurrency: 20,
		Windows: []quota.Window{
			quota.PerMinute(60_000),
			quota.PerDay(10_000_000),
			{Name: "minute llama-70b", Rate: 10_000.0 / 60, Burst: 10_000},
		},
	}
	price := tenant.Price{Output: 3}
	cost := price.Cost(1800, 1000) // 1800 tokens in, at most 1000 out, which cost three times as much
	r := quota.Reservation{ID: "7f3a", Tenant: "acme", Limit: limit, Cost: cost}
	fmt.Println("first:", store.Reserve(ctx, r))

	r2 := r
	r2.ID, r2.Cost = "7f3b", 9000
	var refused *quota.LimitError
	if errors.As(store.Reserve(ctx, r2), &refused) {
		fmt.Println("second:", refused.Verdict, refused.Window, refused.CanFit())
	}
	r2.Cost = 50_000
	fmt.Println("third:", store.Reserve(ctx, r2))

	used := price.Cost(1800, 200) // the answer had 200 tokens
	fmt.Println("settled:", store.Settle(ctx, r, used))
	b, _ := store.Balance(ctx, "acme")
	fmt.Println("running", b.Running, "charged", b.Charged)
	// Output:
	// first: <nil>
	// second: over quota minute llama-70b true
	// third: quota: cost of 50000 tokens is above the limit of 10000 of window "minute llama-70b"
	// settled: <nil>
	// running 0 charged 2400
}

// Long streams renew their leases in batches, and note what they have used.
func ExampleStore_renew() {
	var store quota.Store = quota.NewMemory(quota.MemoryConfig{})
	ctx := context.Background()
	limit := quota.Limit{Windows: []quota.Window{quota.PerMinute(10_000)}}
	streams := []quota.Reservation{
		{ID: "a", Tenant: "acme", Limit: limit, Cost: 4000, Lease: 30 * time.Second},
		{ID: "b", Tenant: "acme", Limit: limit, Cost: 4000, Lease: 30 * time.Second},
	}
	for _, r := range streams {
		if err := store.Reserve(ctx, r); err != nil {
			fmt.Println(err)
		}
	}
	streams[0].Used, streams[1].Used = 700, 1200 // if this process dies now, 2800 and 3300 go back
	fmt.Println(store.Renew(ctx, streams))       // every 10 s or so
	// Output: <nil>
}

func ExampleLimitError() {
	err := error(&quota.LimitError{Verdict: quota.OverQuota, ID: "7f3a", Window: "minute", Limit: 60_000, Cost: 2000, After: 700 * time.Millisecond})
	var e *quota.LimitError
	switch {
	case !errors.As(err, &e):
	case e.Verdict == quota.Never || e.Verdict == quota.Bad:
		fmt.Println(400, e)
	case e.CanFit():
		fmt.Println(429, e, "Retry-After:", e.RetryAfter().Seconds())
	default: // a budget that does not refill
		fmt.Println(429, e)
	}
	// Output: 429 quota: window "minute" of 60000 tokens has no room for 2000, retry in 1s Retry-After: 1
}
