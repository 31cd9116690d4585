package redisquota

import (
	"context"
	"fmt"
	"testing"
	"time"

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
		rs[i].Lease = time.Millisecond
	}
	if err := s.Renew(ctx, rs); err != nil {
		t.Fatal(err)
	}
	next := quota.Reservation{ID: "next", Tenant: "t", Limit: limit, Cost: 1}
	redistest.Until(t, "a slot is free", 10*time.Second, func() bool { return s.Reserve(ctx, next) == nil })
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
	k, _ := keys(s.cfg.Prefix, "t")
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
