package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
	"github.com/expediterhq/expediter/usage"
)

var policies = map[string]redisquota.Policy{
	"closed": redisquota.Closed, "open": redisquota.Open, "local_share": redisquota.LocalShare,
}

func checkRedis(c *redisConfig, m *mistakes) {
	fromEnv("redis.password_env", c.PasswordEnv, m)
	if len(c.Addresses) == 0 {
		if c.Policy != "" || c.Master != "" {
			m.add("redis.addresses", "expected at least one address, such as 10.0.0.9:6379")
		}
		return
	}
	if _, ok := policies[c.Policy]; !ok {
		m.add("redis.policy", "expected closed, open or local_share (what happens while Redis is away), got %q", c.Policy)
	}
	if c.Policy == "local_share" && !(c.Share > 0 && c.Share <= 1) {
		m.add("redis.share", "expected this gateway's part of every limit, above 0 and at most 1, got %v", c.Share)
	}
	if c.DB != 0 && len(c.Addresses) > 1 && c.Master == "" {
		m.add("redis.db", "a cluster has database 0 only")
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		m.add("redis.prefix", "must not contain braces")
	}
}

// openQuota connects to Redis, or keeps quota in memory where the
// configuration names none.
func openQuota(ctx context.Context, c *redisConfig) (store quota.Store, done func(), err error) {
	if len(c.Addresses) == 0 {
		return quota.NewMemory(quota.MemoryConfig{}), func() {}, nil
	}
	o := redis.UniversalOptions{
		Addrs: c.Addresses, MasterName: c.Master, DB: c.DB,
		Username: c.Username, Password: os.Getenv(c.PasswordEnv),
	}
	if c.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	client := redisquota.Client(o)
	reach, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := client.Ping(reach).Err(); err != nil {
		client.Close()
		return nil, func() {}, fmt.Errorf("cannot reach Redis at %s: %w", strings.Join(c.Addresses, ", "), err)
	}
	s, err := redisquota.New(client, redisquota.Config{Policy: policies[c.Policy], Share: c.Share, Prefix: c.Prefix})
	if err != nil {
		client.Close()
		return nil, func() {}, err
	}
	return s, func() { s.Close(); client.Close() }, nil
}

// openUsage opens the usage file, where one is named, beside the metrics.
func openUsage(c *usageConfig, m *metrics.Metrics, logger *slog.Logger) (sink expediter.Sink, done func(), err error) {
	if c.File == "" {
		return m, func() {}, nil
	}
	f, err := usage.NewFile(usage.FileConfig{Path: c.File, MaxBytes: c.MaxSize, Report: func(err error) {
		logger.Error("usage records cannot be written", "error", err)
	}})
	if err != nil {
		return nil, func() {}, err
	}
	m.WatchSink("file", f)
	return usage.NewMulti(m, f), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := f.Close(ctx); err != nil {
			logger.Error("usage records were lost", "error", err)
		}
	}, nil
}
