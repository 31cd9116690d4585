package usage_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/usage"
)

// The master is killed while records are written and Sentinel promotes the
// replica: what it had not acknowledged is written to the new master, and only
// what it had acknowledged and not yet replicated can be missing there.
func TestRedisSentinelFailover(t *testing.T) {
	set := redistest.StartSentinels(t)
	c := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: set.Addrs, MasterName: set.Name, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 500 * time.Millisecond})
	t.Cleanup(func() { c.Close() })
	s := newRedis(t, c, usage.RedisConfig{Timeout: time.Second})
	const before, during, after = 500, 1000, 500
	give(s, 0, before)
	redistest.Until(t, "the first are written", 20*time.Second, func() bool { return s.Written() == before })
	replica := set.Nodes[1]
	redistest.Until(t, "the first are replicated", 20*time.Second, func() bool {
		return replica.Do("XLEN", usage.DefaultStream) == ":500"
	})
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		set.Failover()
	}()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for i := range during {
		give(s, before+i, before+i+1)
		<-tick.C
	}
	<-failed
	redistest.Until(t, "the new master is written to", 30*time.Second, func() bool { return s.Waiting() == 0 })
	acknowledged := s.Written()
	give(s, before+during, before+during+after)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	const all = before + during + after
	if got, want := countsOf(s), (counts{all, 0, 0}); got != want || acknowledged != before+during {
		t.Errorf("%+v, want %+v; %d acknowledged before the last %d", got, want, acknowledged, after)
	}
	got, _ := stream(t, newClient(t, set.Master().Addr), "")
	missing := 0
	for i, id := range numbers(all) {
		if slices.Contains(got, id) {
			continue
		}
		if missing++; i < before || i >= before+during {
			t.Errorf("record %s is missing, which no fail-over can have lost", id)
		}
	}
	t.Logf("%d of %d records were acknowledged by the lost master alone", missing, all)
	if missing > during/10 {
		t.Errorf("%d of %d records are missing: more than a replication delay can explain", missing, all)
	}
	if !strings.Contains(set.Master().Do("INFO", "replication"), "role:master") {
		t.Error("there was no fail-over")
	}
}
