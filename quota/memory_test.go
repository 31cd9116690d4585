package quota_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// clock is a time that tests move by hand.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

func window(rate float64, burst int64) quota.Limit {
	return quota.Limit{Windows: []quota.Window{{Name: "w", Rate: rate, Burst: burst}}}
}

func verdict(err error) quota.Verdict {
	var e *quota.LimitError
	if errors.As(err, &e) {
		return e.Verdict
	}
	if err != nil {
		return 255
	}
	return quota.OK
}

func TestH13MemoryRefusesWrongReservations(t *testing.T) {
	good := quota.Reservation{ID: "1", Tenant: "t", Limit: window(10, 1000), Cost: 1}
	long := strings.Repeat("x", 300)
	for _, tt := range []struct {
		name string
		edit func(*quota.Reservation)
		want quota.Verdict
		say  string
	}{
		{"no id", func(r *quota.Reservation) { r.ID = "" }, quota.Bad, "id"},
		{"long id", func(r *quota.Reservation) { r.ID = long }, quota.Bad, "id"},
		{"long tenant", func(r *quota.Reservation) { r.Tenant = long }, quota.Bad, "tenant"},
		{"zero cost", func(r *quota.Reservation) { r.Cost = 0 }, quota.Bad, "cost"},
		{"negative cost", func(r *quota.Reservation) { r.Cost = -1_000_000 }, quota.Bad, "cost"},
		{"least cost", func(r *quota.Reservation) { r.Cost = math.MinInt64 }, quota.Bad, "cost"},
		{"cost not exact in a double", func(r *quota.Reservation) { r.Cost = quota.MaxTokens + 1 }, quota.Bad, "cost"},
		{"negative used", func(r *quota.Reservation) { r.Used = -1 }, quota.Bad, "used"},
		{"negative lease", func(r *quota.Reservation) { r.Lease = -1 }, quota.Bad, "lease"},
		{"negative cap", func(r *quota.Reservation) { r.Limit.Concurrency = -1 }, quota.Bad, "concurrency"},
		{"rate not a number", func(r *quota.Reservation) { r.Limit = window(math.NaN(), 1) }, quota.Bad, "rate"},
		{"rate infinite", func(r *quota.Reservation) { r.Limit = window(math.Inf(1), 1) }, quota.Bad, "rate"},
		{"rate negative", func(r *quota.Reservation) { r.Limit = window(-1, 1) }, quota.Bad, "rate"},
		{"burst negative", func(r *quota.Reservation) { r.Limit = window(1, -1) }, quota.Bad, "burst"},
		{"window twice", func(r *quota.Reservation) {
			r.Limit.Windows = []quota.Window{quota.PerDay(5), quota.PerDay(6)}
		}, quota.Bad, "day"},
		{"window without name", func(r *quota.Reservation) { r.Limit.Windows = []quota.Window{{Burst: 5}} }, quota.Bad, "name"},
		{"above burst", func(r *quota.Reservation) { r.Cost = 1001 }, quota.Never, "1000"},
		{"burst zero", func(r *quota.Reservation) { r.Limit = window(1, 0) }, quota.Never, "limit of 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := quota.NewMemory(quota.MemoryConfig{})
			r := good
			tt.edit(&r)
			err := m.Reserve(context.Background(), r)
			if verdict(err) != tt.want || !strings.Contains(err.Error(), tt.say) {
				t.Fatalf("Reserve = %v, want %v that names %q", err, tt.want, tt.say)
			}
			var e *quota.LimitError
			if errors.As(err, &e); e.CanFit() || e.RetryAfter() != 0 {
				t.Errorf("CanFit = %v, RetryAfter = %v, want false, 0", e.CanFit(), e.RetryAfter())
			}
			if err := m.Reserve(context.Background(), quota.Reservation{ID: "2", Tenant: "t", Limit: window(10, 1000), Cost: 1000}); err != nil {
				t.Errorf("whole burst after a refusal: %v", err)
			}
		})
	}
}

func TestH11MemoryRetryAfterIsEnough(t *testing.T) {
	for _, rate := range []float64{0.001, 1, 3, 1000.0 / 60, 1e6, 1e12} {
		for _, burst := range []int64{1, 1000, 1e9, quota.MaxTokens} {
			var c clock
			m := quota.NewMemory(quota.MemoryConfig{Now: c.now})
			r := quota.Reservation{Tenant: "t", Limit: window(rate, burst), Cost: burst}
			for i := range 5 {
				r.ID = fmt.Sprint(i)
				if err := m.Reserve(context.Background(), r); err != nil {
					t.Fatalf("rate %v, burst %d: %v", rate, burst, err)
				}
				r.ID = "refused" + r.ID
				var e *quota.LimitError
				if err := m.Reserve(context.Background(), r); !errors.As(err, &e) || e.Verdict != quota.OverQuota {
					t.Fatalf("rate %v, burst %d: %v, want over quota", rate, burst, err)
				}
				if e.RetryAfter() < e.After || e.RetryAfter() < time.Second || e.RetryAfter()%time.Second != 0 {
					t.Errorf("RetryAfter = %v, After = %v", e.RetryAfter(), e.After)
				}
				if e.After == 24*time.Hour {
					break // the named wait is bounded
				}
				c.advance(e.After)
			}
		}
	}
}

func TestH14MemoryRateZero(t *testing.T) {
	m := quota.NewMemory(quota.MemoryConfig{})
	ctx := context.Background()
	r := quota.Reservation{ID: "1", Tenant: "t", Limit: window(0, 100), Cost: 100}
	if err := m.Reserve(ctx, r); err != nil {
		t.Fatal(err)
	}
	r2 := r
	r2.ID, r2.Cost = "2", 1
	var e *quota.LimitError
	if err := m.Reserve(ctx, r2); !errors.As(err, &e) || e.Verdict != quota.OverQuota || e.CanFit() || e.RetryAfter() != 0 {
		t.Fatalf("Reserve = %v, want over quota without a time", err)
	}
	if err := m.Settle(ctx, r, 99); err != nil {
		t.Fatal(err)
	}
	if err := m.Reserve(ctx, r2); err != nil {
		t.Fatalf("after a refund: %v", err)
	}
}

func TestRetryAfterIsSpread(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, time.Second, 10 * time.Second, time.Minute} {
		seen := map[time.Duration]int{}
		var sum time.Duration
		for i := range 1000 {
			e := &quota.LimitError{Verdict: quota.OverQuota, ID: fmt.Sprint(i), After: after}
			seen[e.RetryAfter()]++
			sum += e.RetryAfter()
		}
		for d, n := range seen {
			if n > 800 {
				t.Errorf("After %v: %d of 1000 come back after %v", after, n, d)
			}
		}
		least := max(after, time.Second)
		if mean := sum / 1000; mean < least || mean > least*3/2+100*time.Millisecond {
			t.Errorf("After %v: mean %v", after, mean)
		}
	}
}

func TestMemoryBoundsTenants(t *testing.T) {
	var c clock
	m := quota.NewMemory(quota.MemoryConfig{MaxTenants: 50, Now: c.now})
	ctx := context.Background()
	reserve := func(i int) (quota.Reservation, error) {
		r := quota.Reservation{ID: "1", Tenant: fmt.Sprint(i), Limit: window(1, 10), Cost: 10}
		return r, m.Reserve(ctx, r)
	}
	var rs []quota.Reservation
	for i := range 50 {
		r, err := reserve(i)
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	if _, err := reserve(50); !errors.Is(err, quota.ErrUnavailable) {
		t.Fatalf("51st tenant: %v, want ErrUnavailable", err)
	}
	for _, r := range rs[:25] {
		if err := m.Settle(ctx, r, 10); err != nil {
			t.Fatal(err)
		}
	}
	c.advance(quota.Remember + 1) // ids forgotten, spending regained, leases of the others over
	if err := m.Renew(ctx, rs[25:]); err != nil {
		t.Fatal(err)
	}
	for i := 100; i < 125; i++ {
		if _, err := reserve(i); err != nil {
			t.Fatalf("tenant %d in the place of an idle one: %v", i, err)
		}
	}
	if _, err := reserve(200); !errors.Is(err, quota.ErrUnavailable) {
		t.Fatalf("76th tenant: %v, want ErrUnavailable", err)
	}
	for _, r := range rs[25:] {
		if !m.Holds(r.Tenant, r.ID) {
			t.Errorf("tenant %s lost its reservation", r.Tenant)
		}
	}
}

func TestMemoryBoundsWindows(t *testing.T) {
	var c clock
	m := quota.NewMemory(quota.MemoryConfig{Now: c.now})
	ctx := context.Background()
	for i := range 10_000 {
		r := quota.Reservation{ID: fmt.Sprint(i), Tenant: "t", Cost: 1,
			Limit: quota.Limit{Windows: []quota.Window{{Name: fmt.Sprint(i), Rate: 1, Burst: 5}}}}
		if err := m.Reserve(ctx, r); err != nil {
			t.Fatal(err)
		}
		if err := m.Settle(ctx, r, 0); err != nil {
			t.Fatal(err)
		}
		c.advance(time.Minute)
	}
	b, _ := m.Balance(ctx, "t")
	if len(b.Windows) > 64 {
		t.Errorf("%d windows kept", len(b.Windows))
	}
}

func TestMemoryReserveDoesNotAllocate(t *testing.T) {
	m := quota.NewMemory(quota.MemoryConfig{MaxRemembered: 1600})
	ctx := context.Background()
	next := reservations(20_000)
	turn := func() {
		r := next()
		if err := m.Reserve(ctx, r); err != nil {
			t.Fatal(err)
		}
		if err := m.Settle(ctx, r, 10); err != nil {
			t.Fatal(err)
		}
	}
	for range 20_000 {
		turn()
	}
	if n := testing.AllocsPerRun(10_000, turn); n != 0 {
		t.Errorf("Reserve and Settle: %v allocations, want 0", n)
	}
}

// reservations returns a source of n reservations over 64 tenants, repeated.
func reservations(n int) func() quota.Reservation {
	limit := quota.Limit{Concurrency: 1000, Windows: []quota.Window{quota.PerMinute(1e12), quota.PerDay(1e14)}}
	all := make([]quota.Reservation, n)
	for i := range all {
		all[i] = quota.Reservation{ID: fmt.Sprintf("request-%08d", i), Tenant: fmt.Sprintf("tenant-%d", i%64), Limit: limit, Cost: 1800}
	}
	i := -1
	return func() quota.Reservation {
		i++
		return all[i%n]
	}
}

func TestMemoryGrantsExactlyTheBurst(t *testing.T) {
	m := quota.NewMemory(quota.MemoryConfig{})
	var granted atomic.Int64
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			r := quota.Reservation{ID: fmt.Sprint(i), Tenant: "t", Limit: window(0, 10_000), Cost: 1000}
			if m.Reserve(context.Background(), r) == nil {
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	if granted.Load() != 10 {
		t.Errorf("granted %d, want 10", granted.Load())
	}
}

func TestMemoryHonoursContext(t *testing.T) {
	m := quota.NewMemory(quota.MemoryConfig{})
	cause := errors.New("client gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	r := quota.Reservation{ID: "1", Tenant: "t", Limit: window(0, 10), Cost: 10}
	if err := m.Reserve(ctx, r); err != cause {
		t.Errorf("Reserve = %v, want the context's cause", err)
	}
	if err := m.Reserve(context.Background(), r); err != nil {
		t.Errorf("after a cancelled Reserve: %v", err)
	}
	if err := m.Settle(ctx, r, 0); err != nil {
		t.Errorf("Settle with a cancelled context: %v", err)
	}
}

func BenchmarkMemoryReserve(b *testing.B) {
	m := quota.NewMemory(quota.MemoryConfig{MaxRemembered: 1600})
	ctx := context.Background()
	next := reservations(20_000)
	held := make([]quota.Reservation, 0, 1000)
	b.ReportAllocs()
	for range b.N {
		r := next()
		if err := m.Reserve(ctx, r); err != nil {
			b.Fatal(err)
		}
		if held = append(held, r); len(held) == cap(held) {
			b.StopTimer()
			for _, r := range held {
				m.Settle(ctx, r, 10)
			}
			held = held[:0]
			b.StartTimer()
		}
	}
}

func BenchmarkMemoryReserveSettle(b *testing.B) {
	m := quota.NewMemory(quota.MemoryConfig{MaxRemembered: 1600})
	ctx := context.Background()
	next := reservations(20_000)
	b.ReportAllocs()
	for b.Loop() {
		r := next()
		if err := m.Reserve(ctx, r); err != nil {
			b.Fatal(err)
		}
		m.Settle(ctx, r, 10)
	}
}
