package redisquota_test

import (
	"context"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// The commands that the package's documentation lists are enough.
func TestLeastRights(t *testing.T) {
	server := redistest.Start(t)
	user := []string{"ACL", "SETUSER", "gateway", "on", ">secret", "~expediter:quota:*", "-@all"}
	for _, c := range []string{"eval", "evalsha", "set", "pexpire", "exists", "time", "hget", "hmget", "hset", "hdel", "hgetall", "zadd", "zrem", "zcount", "zrange", "zrangebyscore"} {
		user = append(user, "+"+c)
	}
	server.Do(user...)
	proxy := redistest.NewProxy(t, server.Addr)
	o := redisOptions(proxy.Addr)
	o.Username, o.Password = "gateway", "secret"
	s := openClient(t, redisquota.Config{Timeout: 300 * time.Millisecond}, o)
	ctx := context.Background()
	limit := quota.Limit{Concurrency: 1, Windows: []quota.Window{{Name: "w", Rate: 1, Burst: 100}}}
	short := quota.Reservation{ID: "1", Tenant: "t", Limit: limit, Cost: 10, Lease: time.Millisecond}
	grant := func(what string, r *quota.Reservation) {
		redistest.Until(t, what, 10*time.Second, func() bool {
			r.ID = unique()
			return s.Reserve(ctx, *r) == nil
		})
	}
	grant("granted", &short)
	next := short
	next.Lease = 0
	grant("the first lease is over", &next)
	renew(t, s, next)
	// Through an outage, for the probe.
	proxy.Refuse(true)
	proxy.Cut()
	if err := s.Settle(ctx, next, 3); err != nil {
		t.Error(err)
	}
	redistest.Until(t, "down", 10*time.Second, func() bool { s.Balance(ctx, "t"); return s.Stats().Down })
	proxy.Refuse(false)
	redistest.Until(t, "charged", 10*time.Second, func() bool {
		b, err := s.Balance(ctx, "t")
		return err == nil && b.Charged == 3 && b.Running == 0
	})
}
