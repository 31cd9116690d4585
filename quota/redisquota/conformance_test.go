package redisquota_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/quotatest"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// open returns a store at the addresses, ended with the test. The time-out is
// long, so that a busy machine is not taken for a Redis that is away.
func open(t testing.TB, cfg redisquota.Config, addrs ...string) *redisquota.Store {
	t.Helper()
	return openClient(t, cfg, redis.UniversalOptions{Addrs: addrs})
}

func openClient(t testing.TB, cfg redisquota.Config, o redis.UniversalOptions) *redisquota.Store {
	t.Helper()
	client := redisquota.Client(o)
	if cfg.Policy == 0 {
		cfg.Policy = redisquota.Closed
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
		cfg.Patience = cfg.Timeout
	}
	s, err := redisquota.New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		client.Close()
	})
	return s
}

func TestConformanceSingle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	quotatest.Run(t, func(t *testing.T) quota.Store {
		return open(t, redisquota.Config{}, server.Addr)
	})
}

func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	quotatest.Run(t, func(t *testing.T) quota.Store {
		return open(t, redisquota.Config{}, c.Addrs...)
	})
}
