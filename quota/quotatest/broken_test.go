package quotatest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// broken is a Memory with one thing wrong.
type broken struct {
	*quota.Memory
	reserve func(context.Context, *quota.Memory, quota.Reservation) error
	settle  func(context.Context, *quota.Memory, quota.Reservation, int64) error
}

func (b broken) Reserve(ctx context.Context, r quota.Reservation) error {
	if b.reserve == nil {
		return b.Memory.Reserve(ctx, r)
	}
	return b.reserve(ctx, b.Memory, r)
}

func (b broken) Settle(ctx context.Context, r quota.Reservation, used int64) error {
	if b.settle == nil {
		return b.Memory.Settle(ctx, r, used)
	}
	return b.settle(ctx, b.Memory, r, used)
}

// checkThenAct looks first and takes later, as a store does that reads, decides
// and writes in separate steps.
func checkThenAct(ctx context.Context, m *quota.Memory, r quota.Reservation) error {
	b, err := m.Balance(ctx, r.Tenant)
	if err != nil {
		return err
	}
	wide := r
	wide.Limit.Concurrency = 0
	wide.Limit.Windows = nil
	for _, w := range r.Limit.Windows {
		for _, l := range b.Windows {
			if l.Name == w.Name && l.Spent+float64(r.Cost) > float64(w.Burst) {
				return m.Reserve(ctx, r)
			}
		}
		w.Burst = quota.MaxTokens
		wide.Limit.Windows = append(wide.Limit.Windows, w)
	}
	if c := r.Limit.Concurrency; c > 0 && b.Running >= c || r.Fits() != nil {
		return m.Reserve(ctx, r)
	}
	runtime.Gosched()
	return m.Reserve(ctx, wide)
}

// brokenStores each break one promise.
var brokenStores = []struct {
	name       string
	broken     broken
	concurrent bool // only concurrent callers can notice
}{
	{name: "check then act", broken: broken{reserve: checkThenAct}, concurrent: true},
	{name: "refusal takes", broken: broken{reserve: func(ctx context.Context, m *quota.Memory, r quota.Reservation) error {
		err := m.Reserve(ctx, r)
		var e *quota.LimitError
		if errors.As(err, &e) && e.Verdict == quota.OverQuota {
			r.ID += " refused"
			m.Settle(ctx, r, 1)
		}
		return err
	}}},
	{name: "duplicate granted", broken: broken{reserve: func(ctx context.Context, m *quota.Memory, r quota.Reservation) error {
		err := m.Reserve(ctx, r)
		var e *quota.LimitError
		if errors.As(err, &e) && e.Verdict == quota.Duplicate {
			return nil
		}
		return err
	}}},
	{name: "refund of too much", broken: broken{settle: func(ctx context.Context, m *quota.Memory, r quota.Reservation, used int64) error {
		return m.Settle(ctx, r, used/2)
	}}},
	{name: "settled twice", broken: broken{settle: func(ctx context.Context, m *quota.Memory, r quota.Reservation, used int64) error {
		if !m.Holds(r.Tenant, r.ID) {
			r.ID += " again"
		}
		return m.Settle(ctx, r, used)
	}}},
	{name: "lease without end", broken: broken{reserve: func(ctx context.Context, m *quota.Memory, r quota.Reservation) error {
		r.Lease = 24 * time.Hour
		return m.Reserve(ctx, r)
	}}},
	{name: "first window only", broken: broken{reserve: func(ctx context.Context, m *quota.Memory, r quota.Reservation) error {
		if err := r.Fits(); err != nil {
			return err
		}
		r.Limit.Windows = r.Limit.Windows[:1]
		return m.Reserve(ctx, r)
	}}},
}

func TestBrokenStoresAreFound(t *testing.T) {
	for _, tt := range brokenStores {
		t.Run(tt.name, func(t *testing.T) {
			var ns atomic.Int64
			tt.broken.Memory = quota.NewMemory(quota.MemoryConfig{Now: func() time.Time { return time.Unix(0, ns.Load()) }})
			b := &bench{t: t, st: tt.broken, Suite: Suite{Advance: func(d time.Duration) { ns.Add(int64(d)) }}}
			if tt.concurrent {
				b.Advance = nil
				b.tenant = unique()
				if why := b.sequence(rand.New(rand.NewPCG(1, 3)), 300); why != "" {
					t.Fatalf("one caller alone noticed: %s", why)
				}
			}
			for seed := range uint64(5000) {
				b.tenant = unique()
				rng := rand.New(rand.NewPCG(seed, 3))
				if !tt.concurrent {
					if why := b.sequence(rng, 300); why != "" {
						t.Logf("found: %s", why)
						return
					}
					continue
				}
				s := search{calls: b.history(rng, 4, 6), seen: map[string]bool{}}
				if !s.from(newModel(), 0) {
					t.Logf("found in history %d", seed)
					return
				}
			}
			t.Error("not found")
		})
	}
}
