package faultbench_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// both keeps the house's own quota beside the one in Redis, so that the checks of
// the house hold.
type both struct {
	quota.Store
	memory quota.Store
}

func (b both) Reserve(ctx context.Context, r quota.Reservation) error {
	if err := b.Store.Reserve(ctx, r); err != nil {
		return err
	}
	return b.memory.Reserve(ctx, r)
}

func (b both) Settle(ctx context.Context, r quota.Reservation, used int64) error {
	return errors.Join(b.memory.Settle(ctx, r, used), b.Store.Settle(ctx, r, used))
}

func (b both) Renew(ctx context.Context, rs []quota.Reservation) error {
	return errors.Join(b.memory.Renew(ctx, rs), b.Store.Renew(ctx, rs))
}

// probes counts the probes of a store that failed.
type probes struct{ failed atomic.Int64 }

func (p *probes) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *probes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); err != nil && len(args) > 1 {
			if key, ok := args[1].(string); ok && strings.HasSuffix(key, ":probe") {
				p.failed.Add(1)
			}
		}
		return err
	}
}

func (p *probes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// redisHouse is a house whose quota is in the Redis at addr, under the policy
// closed. end is called when nothing is under way any more.
func redisHouse(t *testing.T, addr string) (h *faultbench.House, store *redisquota.Store, p *probes, end func()) {
	t.Helper()
	client := redisquota.Client(redis.UniversalOptions{Addrs: []string{addr}})
	p = new(probes)
	client.AddHook(p)
	store, err := redisquota.New(client, redisquota.Config{Policy: redisquota.Closed})
	if err != nil {
		t.Fatal(err)
	}
	h = faultbench.Open(t, faultbench.Options{Config: func(c *expediter.Config) { c.Quota = both{store, c.Quota} }})
	return h, store, p, func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestH8GatewayRecovers: Redis is away from a whole gateway for so long that
// more dials failed than the client has connections. While it is away requests
// are refused with 503 and a time to wait. When it is back they are served as
// soon as a probe can have seen it: at most a few more fail. Charges are
// complete afterwards.
func TestH8GatewayRecovers(t *testing.T) {
	for _, way := range []struct {
		name       string
		begin, end func(*redistest.Server, *redistest.Proxy)
	}{
		{"H8 killed", func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Restart() }},
		{"H8 stopped", func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() }, func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() }},
		{"H8 dropped", func(_ *redistest.Server, p *redistest.Proxy) { p.Silence(true) }, func(_ *redistest.Server, p *redistest.Proxy) { p.Silence(false) }},
	} {
		if testing.Short() && way.name != "H8 killed" {
			continue
		}
		t.Run(way.name, func(t *testing.T) {
			server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			proxy := redistest.NewProxy(t, server.Addr)
			addr := proxy.Addr
			if way.name == "H8 killed" {
				addr = server.Addr // so that dials fail
			}
			h, store, p, end := redisHouse(t, addr)
			untilServed(t, h)
			way.begin(server, proxy)
			outage(t, h, p)
			failed := p.failed.Load()
			way.end(server, proxy)
			back := time.Now()
			untilServed(t, h)
			late := p.failed.Load() - failed
			t.Logf("served %v after Redis came back, %d probes failed in between", time.Since(back), late)
			if late > 20 { // ten a second
				t.Errorf("%d probes failed after Redis came back: more than in two seconds", late)
			}
			h.Check()
			checkRedisCharges(t, h, store)
			end()
		})
	}
}

// outage sends requests until more probes failed than the client has
// connections.
func outage(t *testing.T, h *faultbench.House, p *probes) {
	t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 4 {
		wg.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			refused := 0
			for p.failed.Load() < 18 {
				a := h.Do(context.Background(), faultbench.Request{Stream: true, MaxTokens: 2})
				switch {
				case a.Status == 503 && a.Header.Get("Retry-After") != "":
					refused++
				case !a.OK():
					t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
				}
				<-tick.C
			}
			if refused == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// untilServed sends requests until one is served.
func untilServed(t *testing.T, h *faultbench.House) {
	t.Helper()
	h.Eventually("a request to be served", func() bool {
		a := h.Do(t.Context(), faultbench.Request{MaxTokens: 2})
		return a.OK()
	})
}

// checkRedisCharges: Redis has charged what the records say, and holds nothing.
func checkRedisCharges(t *testing.T, h *faultbench.House, store *redisquota.Store) {
	t.Helper()
	var charged int64
	for _, r := range h.Records() {
		charged += r.Charged
	}
	var b quota.Balance
	h.Eventually("the charges in Redis", func() bool {
		var err error
		b, err = store.Balance(t.Context(), h.Tenant.ID)
		return err == nil && b.Running == 0 && b.Charged == charged
	})
	if b.Running != 0 || b.Reserved != 0 || b.Charged != charged || charged == 0 {
		t.Errorf("Redis holds %+v, the records charge %d", b, charged)
	}
}
