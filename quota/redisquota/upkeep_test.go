package redisquota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
)

// More leases end at once than one call looks after: their slots are free at the
// next call all the same, and their tokens after a few.
func TestManyLeasesEndAtOnce(t *testing.T) {
	s := newTestStore(t, redistest.Start(t).Addr)
	ctx := context.Background()
	const n = 1800
	limit := quota.Limit{Concurrency: n, Windows: []quota.Window{{Name: "w", Burst: 2 * n}, {Name: "v", Burst: 2 * n}}}
	var rs []quota.Reservation
	for i := range n {
		rs = append(rs, quota.Reservation{ID: fmt.Sprint(i), Tenant: "t", Limit: limit, Cost: 1, Used: int64(i % 2), Lease: time.Hour})
		if err := s.Reserve(ctx, rs[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rs {
		rs[i].Lease = 500 * time.Millisecond
	}
	if err := s.Renew(ctx, rs); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "all leases are over", 10*time.Second, func() bool {
		k := keysOf(s, "t")
		last, err := s.client.ZRevRangeByScoreWithScores(ctx, k[1], &redis.ZRangeBy{Min: "0", Max: "3e15", Count: 1}).Result()
		now, err2 := s.client.Time(ctx).Result()
		return err == nil && err2 == nil && float64(now.UnixMicro()) > last[0].Score
	})
	limit.Concurrency = 1
	next := quota.Reservation{ID: "next", Tenant: "t", Limit: limit, Cost: 1}
	if err := s.Reserve(ctx, next); err != nil {
		t.Fatalf("the only slot: %v", err)
	}
	b, err := s.Balance(ctx, "t")
	if err != nil || b.Running != 1 || b.Reserved != 1 || b.Charged != n/2 || len(b.Windows) != 2 || b.Windows[0].Spent != n/2+1 || b.Windows[1].Spent != n/2+1 {
		t.Errorf("Balance = %+v, %v", b, err)
	}
}

// Settled ids do not stay for ever.
func TestSettledIdsAreForgotten(t *testing.T) {
	s := newTestStore(t, redistest.Start(t).Addr)
	ctx := context.Background()
	limit := quota.Limit{Windows: []quota.Window{{Name: "w", Burst: 1e9}}}
	res := func(i int) quota.Reservation {
		return quota.Reservation{ID: fmt.Sprint(i), Tenant: "t", Limit: limit, Cost: 5}
	}
	const n = 2500
	for i := range n {
		if err := s.Settle(ctx, res(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	k := keysOf(s, "t")
	if got, err := s.client.HLen(ctx, k[0]).Result(); err != nil || got != n+3 {
		t.Fatalf("%d fields, %v; want one per id, the head, the window and one more", got, err)
	}
	// Their time is over.
	err := s.client.Eval(ctx, `
		for _, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
			if string.sub(m, 1, 2) == 'r:' then redis.call('ZADD', KEYS[1], '4000000000000001', m) end
		end
		return 0`, k[1:]).Err()
	if err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "the ids are forgotten", 20*time.Second, func() bool {
		if _, err := s.Balance(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		got, err := s.client.HLen(ctx, k[0]).Result()
		return err == nil && got == 3
	})
	if got, err := s.client.ZCard(ctx, k[1]).Result(); err != nil || got != 1 {
		t.Errorf("%d members, %v; want the one that stays", got, err)
	}
	b, err := s.Balance(ctx, "t")
	if err != nil || b.Charged != n || b.Windows[0].Spent != n {
		t.Errorf("Balance = %+v, %v", b, err)
	}
}

// A settlement that may have arrived before, and is so old that Redis may have
// forgotten it, is not taken for a new one; one that never left is.
func TestOldDebts(t *testing.T) {
	s := newTestStore(t, redistest.Start(t).Addr)
	ctx := context.Background()
	limit := quota.Limit{Windows: []quota.Window{{Name: "w", Burst: 1e9}}}
	now := time.Now()
	for i, tt := range []struct {
		since time.Time
		sent  bool
		held  bool
		want  int64
	}{
		{now, true, false, 7},
		{now.Add(-10 * time.Second), true, false, 7},
		{now.Add(-quota.Remember), false, false, 7},
		{now.Add(-quota.Remember), true, false, 0},
		{now.Add(-quota.Remember), true, true, 7},
	} {
		r := quota.Reservation{ID: "1", Tenant: fmt.Sprint(i), Limit: limit, Cost: 10}
		if tt.held {
			if err := s.Reserve(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		s.backlog.add(debt{r: r, used: 7, since: tt.since, sent: tt.sent})
		redistest.Until(t, "delivered", 10*time.Second, func() bool { n, _ := s.backlog.size(); return n == 0 })
		b, err := s.Balance(ctx, r.Tenant)
		if err != nil || b.Charged != tt.want || b.Running != 0 {
			t.Errorf("case %d: %+v, %v; want %d charged", i, b, err, tt.want)
		}
	}
}
