package redisquota_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// outage is a way for Redis to be away.
type outage struct {
	name       string
	begin, end func(*redistest.Server, *redistest.Proxy)
}

var outages = []outage{
	{"killed", func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Restart() }},
	{"hung", func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() }},
	{"silent network", func(_ *redistest.Server, p *redistest.Proxy) { p.Silence(true) }, func(_ *redistest.Server, p *redistest.Proxy) { p.Silence(false); p.Cut() }},
	{"refused", func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(true); p.Cut() }, func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(false) }},
}

// outageTime is how long Redis stays away: 700 ms, or EXPEDITER_QUOTA_OUTAGE.
func outageTime(t *testing.T) time.Duration {
	v := os.Getenv("EXPEDITER_QUOTA_OUTAGE")
	if v == "" {
		return 700 * time.Millisecond
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatalf("EXPEDITER_QUOTA_OUTAGE: %v", err)
	}
	return d
}

// Redis goes away under load and comes back. The policy holds in between, and
// afterwards the charges are complete.
func TestH8Outage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cfg    redisquota.Config
		burst  int64
		grants func(n int) bool // of an outage
	}{
		{"closed", redisquota.Config{Policy: redisquota.Closed}, 1e9, func(n int) bool { return n == 0 }},
		{"open", redisquota.Config{Policy: redisquota.Open}, 1e9, func(n int) bool { return n > 100 }},
		// Two gateways with a share of 1 % of 100,000 can let through 2,000 tokens: a
		// little over 100 requests, as each gives back half of its cost.
		{"local share", redisquota.Config{Policy: redisquota.LocalShare, Share: 0.01}, 100_000, func(n int) bool { return n <= 200 }},
	} {
		for i, o := range outages {
			if tt.cfg.Policy != redisquota.Closed && i >= 2 && testing.Short() {
				continue
			}
			t.Run(tt.name+"/"+o.name, func(t *testing.T) {
				testOutage(t, tt.cfg, only(0, tt.burst, 0), o, tt.grants)
			})
		}
	}
}

func testOutage(t *testing.T, cfg redisquota.Config, limit quota.Limit, o outage, good func(int) bool) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	proxy := redistest.NewProxy(t, server.Addr)
	cfg.Timeout = 100 * time.Millisecond
	gateways := []*redisquota.Store{open(t, cfg, proxy.Addr), open(t, cfg, proxy.Addr)}
	l := startLoad(t, limit, gateways...)
	redistest.Until(t, "grants before", 10*time.Second, func() bool { return l.grants() > 200 })
	goroutines := runtime.NumGoroutine()
	l.mark()

	o.begin(server, proxy)
	redistest.Until(t, "both breakers open", 5*time.Second, func() bool { return gateways[0].Stats().Down && gateways[1].Stats().Down })
	before, _, _, took := l.mark() // until here a reply may still have come from before
	<-time.After(outageTime(t))
	granted, refused, unavailable, after := l.mark()
	redistest.Until(t, "no more goroutines than 20 above those before", 10*time.Second, func() bool { return runtime.NumGoroutine() <= goroutines+20 })
	o.end(server, proxy)
	back := time.Now()
	redistest.Until(t, "both breakers closed", 10*time.Second, func() bool { return !gateways[0].Stats().Down && !gateways[1].Stats().Down })
	took = append(took, after...)
	slices.Sort(took)
	t.Logf("outage: %d granted, %d refused, %d unavailable; Reserve from its first moment to its last p50 %v, p99 %v, slowest %v; back after %v",
		before+granted, refused, unavailable, quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1), time.Since(back))
	if !good(granted) {
		t.Errorf("%d granted while redis was away (%d before that was known), %d refused, %d unavailable", granted, before, refused, unavailable)
	}
	if cfg.Policy == redisquota.Closed != (unavailable > 0) {
		t.Errorf("%d calls were answered unavailable", unavailable)
	}
	l.mark()
	redistest.Until(t, "grants after", 10*time.Second, func() bool { return l.grants() > 100 })
	l.end()
	atRest(t, gateways[0], "t", l.used)
	checkKeys(t, server.Addr)
}

// What a gateway grants by itself counts in its own slots too, and when Redis is
// back it is held and charged there.
func TestLocalShareReconciles(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	s := open(t, redisquota.Config{Policy: redisquota.LocalShare, Share: 0.25, Timeout: 100 * time.Millisecond}, proxy.Addr)
	ctx := context.Background()
	limit := only(0, 1000, 10)
	proxy.Refuse(true)
	proxy.Cut()
	res := func(id string, cost int64) quota.Reservation {
		return quota.Reservation{ID: id, Tenant: "t", Limit: limit, Cost: cost}
	}
	var held []quota.Reservation
	for i := range 10 {
		r := res(fmt.Sprint(i), 100)
		if err := s.Reserve(ctx, r); err == nil {
			held = append(held, r)
		} else if verdictOf(err) != quota.OverQuota && verdictOf(err) != quota.OverConcurrency {
			t.Errorf("Reserve = %v", err)
		}
	}
	if len(held) != 2 { // 250 tokens and 2 slots
		t.Fatalf("%d granted from a share of 250 tokens and 2 slots, want 2", len(held))
	}
	if err := s.Reserve(ctx, res("large", 600)); verdictOf(err) != quota.OverQuota {
		t.Errorf("larger than the share, not than the limit = %v, want over quota", err)
	}
	if err := s.Reserve(ctx, res("too large", 2000)); verdictOf(err) != quota.Never {
		t.Errorf("larger than the limit = %v, want never", err)
	}
	if err := s.Settle(ctx, held[0], 60); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(ctx, held[1:]); err == nil {
		t.Error("Renew without redis reported no error")
	}
	if st := s.Stats(); !st.Down || st.Pending == 0 {
		t.Errorf("Stats = %+v, want down and the settlement pending", st)
	}
	proxy.Refuse(false)
	redistest.Until(t, "redis is back", 10*time.Second, func() bool { st := s.Stats(); return !st.Down && st.Pending == 0 })
	renew(t, s, held[1:]...)
	if b := balance(t, s, "t"); b.Running != 1 || b.Reserved != 100 || b.Charged != 60 {
		t.Errorf("after the outage %+v, want one held, 60 charged", b)
	}
	if err := s.Settle(ctx, held[1], 100); err != nil {
		t.Fatal(err)
	}
	atRest(t, s, "t", 160)
}

// A settlement that cannot be delivered before the end is not lost in silence.
func TestCloseTellsWhatIsLost(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	s := open(t, redisquota.Config{Backlog: 2, Timeout: 100 * time.Millisecond}, proxy.Addr)
	ctx := context.Background()
	var rs []quota.Reservation
	for range 3 {
		r := quota.Reservation{Tenant: "t", Limit: only(0, 1000, 0), Cost: 100}
		redistest.Until(t, "granted", 10*time.Second, func() bool {
			r.ID = unique()
			return s.Reserve(ctx, r) == nil
		})
		rs = append(rs, r)
	}
	redistest.Until(t, "nothing is pending", 10*time.Second, func() bool { st := s.Stats(); return !st.Down && st.Pending == 0 })
	dropped := s.Stats().Dropped
	proxy.Refuse(true)
	proxy.Cut()
	for i, r := range rs {
		err := s.Settle(ctx, r, 1)
		if (err == nil) != (i < 2) {
			t.Errorf("settlement %d with a backlog of 2: %v", i, err)
		}
	}
	if st := s.Stats(); st.Pending != 2 || st.Dropped != dropped+1 {
		t.Errorf("Stats = %+v, want 2 pending, 1 dropped", st)
	}
	if err := s.Close(); err == nil {
		t.Error("Close with two settlements undelivered reported no error")
	}
	if err := s.Settle(ctx, rs[0], 1); err == nil {
		t.Error("Settle after Close reported no error")
	}
	if err := s.Reserve(ctx, rs[0]); err == nil {
		t.Error("Reserve after Close reported no error")
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	server := redistest.Start(t)
	before := runtime.NumGoroutine()
	for range 5 {
		client := redisquota.Client(redisOptions(server.Addr))
		s, err := redisquota.New(client, redisquota.Config{Policy: redisquota.Closed})
		if err != nil {
			t.Fatal(err)
		}
		s.Balance(context.Background(), "t")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		client.Close()
	}
	redistest.Until(t, "goroutines have ended", 10*time.Second, func() bool { return runtime.NumGoroutine() <= before })
}
