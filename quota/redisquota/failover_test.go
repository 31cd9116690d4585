package redisquota_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// The master is killed under load and Sentinel promotes the replica. What the
// replica had not received is lost: those settlements are not charged, and at
// most their tokens can be granted again.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	o := redis.UniversalOptions{Addrs: set.Addrs, MasterName: set.Name}
	cfg := redisquota.Config{Timeout: 200 * time.Millisecond}
	gateways := []*redisquota.Store{openClient(t, cfg, o), openClient(t, cfg, o)}
	l := startLoad(t, only(0, 1e9, 0), gateways...)
	redistest.Until(t, "grants before", 10*time.Second, func() bool { return l.grants() > 500 })
	set.Failover()
	promoted := time.Now()
	redistest.Until(t, "redis is back for both", 20*time.Second, func() bool { return !gateways[0].Stats().Down && !gateways[1].Stats().Down })
	t.Logf("back %v after another master was chosen", time.Since(promoted))
	_, _, unavailable, _ := l.mark()
	redistest.Until(t, "grants after", 10*time.Second, func() bool { return l.grants() > 500 })
	l.end()
	if unavailable == 0 {
		t.Error("nobody noticed the fail-over")
	}

	// Reservations whose settlement was lost are held until their lease is over.
	var lost int64
	redistest.Until(t, "nothing is held", 60*time.Second, func() bool {
		b := balance(t, gateways[0], "t")
		lost = l.used - b.Charged
		if spent(b, "w") < 0 || spent(b, "w") != float64(b.Charged+b.Reserved) {
			t.Fatalf("%+v: what is spent is not what is charged and held", b)
		}
		return b.Running == 0 && gateways[0].Stats().Pending == 0 && gateways[1].Stats().Pending == 0
	})
	t.Logf("%d of %d tokens were charged to the lost master alone", lost, l.used)
	if lost < 0 {
		t.Errorf("charged %d more than was used", -lost)
	}
	if most := l.used / 10; lost > most {
		t.Errorf("lost %d of %d tokens: more than a replication delay can explain", lost, l.used)
	}
	checkKeys(t, set.Master().Addr)
}

// All that was written is lost at once, as by a fail-over to a replica that knew
// nothing: what is running is held again by its Renew, what ends is charged, and
// no more is granted than what was lost.
func TestServerForgetsEverything(t *testing.T) {
	old, empty := redistest.Start(t), redistest.Start(t)
	proxy := redistest.NewProxy(t, old.Addr)
	s := open(t, redisquota.Config{}, proxy.Addr)
	ctx := context.Background()
	limit := only(0, 1000, 8)
	var rs []quota.Reservation
	for i := range 8 {
		r := quota.Reservation{ID: fmt.Sprint(i), Tenant: "t", Limit: limit, Cost: 120}
		if err := s.Reserve(ctx, r); err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	for _, r := range rs[:3] {
		if err := s.Settle(ctx, r, 100); err != nil {
			t.Fatal(err)
		}
	}
	proxy.Target(empty.Addr)
	proxy.Cut()
	if err := s.Renew(ctx, rs[3:6]); err != nil {
		t.Fatal(err)
	}
	if b := balance(t, s, "t"); b.Running != 3 || b.Reserved != 360 || b.Charged != 0 {
		t.Errorf("after Renew of three: %+v", b)
	}
	for _, r := range rs[4:] { // two renewed, two not
		if err := s.Settle(ctx, r, 50); err != nil {
			t.Fatal(err)
		}
	}
	if b := balance(t, s, "t"); b.Running != 1 || b.Reserved != 120 || b.Charged != 200 {
		t.Errorf("after four settlements: %+v", b)
	}
	granted := 0
	for i := range 20 {
		r := quota.Reservation{ID: fmt.Sprint("more", i), Tenant: "t", Limit: only(0, 1000, 0), Cost: 40}
		if s.Reserve(ctx, r) == nil {
			granted++
		}
	}
	// 1000 - 120 held - 200 charged: only the 300 of the lost settlements are granted
	// a second time.
	if granted != 17 {
		t.Errorf("%d times 40 tokens fit, want 17", granted)
	}
	checkKeys(t, empty.Addr)
}

// One of three masters dies: tenants that live on the others do not notice.
func TestClusterNodeDies(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, redisquota.Config{Timeout: 200 * time.Millisecond}, cluster.Addrs...)
	ctx := context.Background()
	for i := range 26 {
		tenant := string(rune('A' + i))
		redistest.Until(t, "granted", 10*time.Second, func() bool { return s.Reserve(ctx, reservation(tenant, unique())) == nil })
	}
	tenants := map[string]int{} // to the node
	for n, node := range cluster.Nodes {
		_, keys := allKeys(t, node.Addr)
		for _, k := range keys {
			if name, ok := strings.CutSuffix(k, "}:h"); ok {
				tenants[strings.TrimPrefix(name, "expediter:quota:{t")] = n
			}
		}
	}
	if len(tenants) != 26 {
		t.Fatalf("%d tenants in redis, want 26", len(tenants))
	}
	cluster.Nodes[0].Kill()
	redistest.Until(t, "the dead node is noticed", 10*time.Second, func() bool {
		for tenant, n := range tenants {
			if n == 0 && s.Reserve(ctx, reservation(tenant, unique())) == nil {
				t.Fatalf("tenant %q was granted by a dead node", tenant)
			}
		}
		return s.Stats().Down
	})
	for tenant, n := range tenants {
		if n == 0 {
			continue
		}
		redistest.Until(t, "tenants of live nodes are served", 20*time.Second, func() bool {
			return s.Reserve(ctx, reservation(tenant, unique())) == nil
		})
	}
	cluster.Nodes[0].Restart()
	for tenant := range tenants {
		redistest.Until(t, "all tenants are served", 20*time.Second, func() bool {
			return s.Reserve(ctx, reservation(tenant, unique())) == nil
		})
	}
}

// TestClusterFailover: a replica that takes the slots of its dead master over is
// found while the master stays dead.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	cluster.AddReplica(t, 0)
	s := open(t, redisquota.Config{Timeout: 200 * time.Millisecond}, cluster.Addrs...)
	ctx := context.Background()
	reserve := func(tenant string) bool { return s.Reserve(ctx, reservation(tenant, unique())) == nil }
	var there []string // tenants of the node that dies
	for i := range 26 {
		tenant := string(rune('A' + i))
		redistest.Until(t, "granted", 10*time.Second, func() bool { return reserve(tenant) })
	}
	_, keys := allKeys(t, cluster.Nodes[0].Addr)
	for _, k := range keys {
		if name, ok := strings.CutSuffix(k, "}:h"); ok {
			there = append(there, strings.TrimPrefix(name, "expediter:quota:{t"))
		}
	}
	if len(there) == 0 {
		t.Fatal("no tenant is on the node that dies")
	}
	cluster.Nodes[0].Kill()
	for _, tenant := range there {
		redistest.Until(t, "tenants of the dead node are served", 30*time.Second, func() bool { return reserve(tenant) })
	}
}

// Replication is held up before the master dies, so that writes are lost for
// certain: no more than they is granted twice, and what still runs is held again.
func TestLostWrites(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	wire := redistest.NewProxy(t, master.Addr)
	host, port, _ := strings.Cut(wire.Addr, ":")
	replica := redistest.Start(t, "--replicaof", host+" "+port)
	redistest.Until(t, "the replica follows", 20*time.Second, func() bool {
		return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up")
	})
	front := redistest.NewProxy(t, master.Addr)
	s := open(t, redisquota.Config{}, front.Addr)
	ctx := context.Background()
	const budget = 20_000
	limit := only(0, budget, 0)

	l := startLoad(t, limit, s)
	redistest.Until(t, "grants before", 10*time.Second, func() bool { return l.grants() > 300 })
	redistest.Until(t, "the replica has some", 10*time.Second, func() bool { return balanceAt(t, replica.Addr).Charged > 1000 })
	wire.Silence(true)
	stream := quota.Reservation{ID: "stream", Tenant: "t", Limit: limit, Cost: 500}
	if err := s.Reserve(ctx, stream); err != nil {
		t.Fatal(err)
	}
	already := l.grants()
	redistest.Until(t, "grants that are not replicated", 10*time.Second, func() bool { return l.grants() > already+300 })
	l.end()
	before := balance(t, s, "t")
	master.Kill()
	replica.Do("REPLICAOF", "NO", "ONE")
	front.Target(replica.Addr)
	front.Cut()
	redistest.Until(t, "the replica serves", 10*time.Second, func() bool { return s.Renew(ctx, []quota.Reservation{stream}) == nil })
	after := balance(t, s, "t")
	lost := before.Charged - after.Charged
	if after.Running < 1 || lost <= 0 {
		t.Fatalf("before %+v, after %+v: want the stream held and some charges lost", before, after)
	}

	more := startLoad(t, limit, s)
	redistest.Until(t, "the budget is used up", 60*time.Second, func() bool {
		more.mu.Lock()
		defer more.mu.Unlock()
		return more.refused > 200
	})
	more.end()
	if err := s.Settle(ctx, stream, 500); err != nil {
		t.Fatal(err)
	}
	used := l.used + more.used + 500
	end := balance(t, s, "t")
	t.Logf("%d tokens lost, %d granted of %d", lost, used, budget)
	if used > budget+lost {
		t.Errorf("%d tokens used of %d, though only %d were lost", used, budget, lost)
	}
	if spent(end, "w") != float64(end.Charged+end.Reserved) || end.Charged > budget {
		t.Errorf("at the end %+v", end)
	}
}

// balanceAt is the tenant's balance at a server that may be a replica.
func balanceAt(t *testing.T, addr string) quota.Balance {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	h, err := c.HGet(context.Background(), "expediter:quota:{tt}:h", "h").Result()
	if err != nil || len(h) != 32 {
		return quota.Balance{}
	}
	return quota.Balance{Charged: int64(math.Float64frombits(binary.BigEndian.Uint64([]byte(h))))}
}
