//go:build unix

package redisquota_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// bareScript is what is usually done instead: a bucket refilled by the caller's
// clock, and a counter of running requests with an expiry. It has no ids, cannot
// be repeated, and gives nothing back.
var bareScript = redis.NewScript(`
local b = redis.call('HMGET', KEYS[1], 'tokens', 'ts')
local rate, burst, now, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens, ts = tonumber(b[1]) or burst, tonumber(b[2]) or now
tokens = math.min(burst, tokens + (now - ts) * rate)
if tokens < cost then return 0 end
redis.call('HSET', KEYS[1], 'tokens', tokens - cost, 'ts', now)
redis.call('EXPIRE', KEYS[1], 300)
redis.call('INCR', KEYS[2])
redis.call('EXPIRE', KEYS[2], 300)
return 1`)

var bareRelease = redis.NewScript(`return redis.call('DECR', KEYS[1])`)

// BenchmarkRedisThroughput compares, in the same run and on the same server, the
// store's Reserve and Settle with the bare script: alone, and with the call that
// frees its slot again. Each round is 2,000 of each by 64 callers over 64
// tenants. On a machine that is busy with other things the processor time that
// client and server took together (us/...) says more than the rates.
func BenchmarkRedisThroughput(b *testing.B) {
	server := redistest.Start(b)
	client := redisquota.Client(redis.UniversalOptions{Addrs: []string{server.Addr}, PoolSize: 64})
	b.Cleanup(func() { client.Close() })
	store := open(b, redisquota.Config{}, server.Addr)
	ctx := context.Background()
	limit := quota.Limit{Concurrency: 1000, Windows: []quota.Window{{Name: "minute", Rate: 1e9, Burst: 1e12}}}
	take := func(tenant int) error {
		keys := []string{fmt.Sprintf("{%d}tokens", tenant), fmt.Sprintf("{%d}slots", tenant)}
		return bareScript.Run(ctx, client, keys, 1e9, int64(1e12), time.Now().UnixMilli(), 1800).Err()
	}
	ways := []struct {
		name string
		do   func(tenant int) error
		took time.Duration
		cpu  time.Duration
	}{
		{"bare", take, 0, 0},
		{"bare+release", func(tenant int) error {
			if err := take(tenant); err != nil {
				return err
			}
			return bareRelease.Run(ctx, client, []string{fmt.Sprintf("{%d}slots", tenant)}).Err()
		}, 0, 0},
		{"reserve+settle", func(tenant int) error {
			r := quota.Reservation{ID: fmt.Sprintf("%016x", rand.Uint64()), Tenant: fmt.Sprint(tenant), Limit: limit, Cost: 1800}
			if err := store.Reserve(ctx, r); err != nil {
				return err
			}
			return store.Settle(ctx, r, 700)
		}, 0, 0},
	}
	const round = 2000
	rounds := 0
	for b.Loop() {
		for i := range ways {
			cpu, start := cpuTime(b, client), time.Now()
			inParallel(b, 64, round, ways[i].do)
			ways[i].took += time.Since(start)
			ways[i].cpu += cpuTime(b, client) - cpu
		}
		rounds++
	}
	rate := func(i int) float64 { return float64(rounds*round) / ways[i].took.Seconds() }
	for i := range ways {
		b.ReportMetric(rate(i), ways[i].name+"/s")
		b.ReportMetric(float64(ways[i].cpu.Microseconds())/float64(rounds*round), "us/"+ways[i].name)
	}
	b.ReportMetric(100*float64(ways[0].cpu)/float64(ways[2].cpu), "%ofbare(cpu)")
	b.ReportMetric(100*rate(2)/rate(0), "%ofbare")
	b.ReportMetric(100*rate(2)/rate(1), "%ofbare+release")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is what this process and the server have used so far.
func cpuTime(b *testing.B, client redis.UniversalClient) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	info, err := client.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	sum := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	for line := range strings.Lines(info) {
		name, v, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			s, err := strconv.ParseFloat(v, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(s * 1e9)
		}
	}
	return sum
}

func inParallel(b *testing.B, workers, n int, do func(int) error) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				if err := do(i % 64); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkRedisDown is Reserve while the breaker is open, by policy.
func BenchmarkRedisDown(b *testing.B) {
	for _, cfg := range []redisquota.Config{
		{Policy: redisquota.Closed}, {Policy: redisquota.Open}, {Policy: redisquota.LocalShare, Share: 0.5},
	} {
		b.Run([]string{1: "closed", 2: "open", 3: "local share"}[cfg.Policy], func(b *testing.B) {
			cfg.Timeout = 100 * time.Millisecond
			s := open(b, cfg, "127.0.0.1:1")
			ctx := context.Background()
			r := quota.Reservation{Tenant: "t", Limit: only(1e9, 1<<50, 0), Cost: 1000}
			for i := 0; !s.Stats().Down; i++ {
				r.ID = fmt.Sprint("first", i)
				s.Reserve(ctx, r)
			}
			i := 0
			for b.Loop() {
				i++
				r.ID = fmt.Sprint(i)
				if err := s.Reserve(ctx, r); (err == nil) == (cfg.Policy == redisquota.Closed) {
					b.Fatal(err)
				}
			}
		})
	}
}
