package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
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

func checkRedis(c *redisConfig, stream string, m *mistakes) {
	used := !reflect.ValueOf(*c).IsZero()
	switch {
	case m.lines["redis"] > 0 && !used:
		m.add("redis", "says nothing; expected addresses and policy, or no such line for a gateway that counts alone")
	case len(c.Addresses) == 0 && stream != "":
		m.add("usage.redis_stream", "needs redis.addresses")
	case len(c.Addresses) == 0 && used:
		m.add("redis.addresses", "expected at least one address, such as 10.0.0.9:6379")
	}
	for i, addr := range c.Addresses {
		checkAddress(fmt.Sprintf("redis.addresses[%d]", i), addr, "10.0.0.9:6379", m)
	}
	fromEnv("redis.password_env", c.PasswordEnv, m)
	if _, ok := policies[c.Policy]; used && !ok {
		m.add("redis.policy", "expected closed, open or local_share (what happens while Redis is away), got %q", c.Policy)
	}
	if (c.Policy == "local_share" || c.Share != 0) && !(c.Share > 0 && c.Share <= 1) {
		m.add("redis.share", "expected this gateway's part of every limit, above 0 and at most 1, got %v", c.Share)
	}
	if c.secured() && !c.TLS {
		m.add("redis.tls", "must be true for redis.ca, cert, key and server_name to mean anything")
	}
	if c.DB < 0 {
		m.add("redis.db", "must not be negative, got %d", c.DB)
	}
	if c.DB != 0 && len(c.Addresses) > 1 && c.Master == "" {
		m.add("redis.db", "a cluster has database 0 only")
	}
	if c.Timeout < 0 {
		m.add("redis.timeout", "must not be negative, got %v", c.Timeout)
	}
	if c.Patience < 0 {
		m.add("redis.patience", "must not be negative, got %v", c.Patience)
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		m.add("redis.prefix", "must not contain braces")
	}
}

// stores are where quota is kept and records go.
type stores struct {
	client  redis.UniversalClient // nil without Redis
	quota   quota.Store
	usage   expediter.Sink
	closers []func()
}

func (s *stores) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}

// openStores connects to Redis, if the configuration names one, and opens the
// sinks. Without an answer from Redis it fails only under the policy closed. close gives back what was opened, also after an error.
func openStores(ctx context.Context, c *config, m *metrics.Metrics, logger *slog.Logger) (*stores, error) {
	s := &stores{quota: quota.NewMemory(quota.MemoryConfig{})}
	if len(c.Redis.Addresses) > 0 {
		if err := s.openRedis(ctx, &c.Redis, m, logger); err != nil {
			return s, err
		}
	}
	return s, s.openUsage(&c.Usage, m, logger)
}

func (s *stores) openRedis(ctx context.Context, c *redisConfig, m *metrics.Metrics, logger *slog.Logger) error {
	redis.SetLogger(redisLogger{logger})
	o := redis.UniversalOptions{
		Addrs: c.Addresses, MasterName: c.Master, DB: c.DB,
		Username: c.Username, Password: os.Getenv(c.PasswordEnv),
	}
	if c.TLS {
		o.Dialer = c.dialer(logger)
	}
	s.client = redisquota.Client(o)
	s.closers = append(s.closers, func() { s.client.Close() })
	if err := s.reachRedis(ctx, c, logger); err != nil {
		return err
	}
	store, err := redisquota.New(s.client, redisquota.Config{
		Policy: policies[c.Policy], Share: c.Share, Prefix: c.Prefix, Timeout: c.Timeout, Patience: c.Patience,
		Logger: logger,
	})
	if err != nil {
		return err
	}
	s.quota = store
	m.WatchQuota(func() metrics.QuotaState {
		st := store.Stats()
		return metrics.QuotaState{Down: st.Down, Pending: st.Pending, Dropped: st.Dropped}
	})
	s.closers = append(s.closers, func() { store.Close() }, startWatch(store, c, logger))
	return nil
}

// reachRedis asks Redis whether it is there. Under a policy that serves
// without it, a Redis that is away is a warning; one that refuses the login
// never is.
func (s *stores) reachRedis(ctx context.Context, c *redisConfig, logger *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	err := s.client.Ping(ctx).Err()
	if err == nil {
		return nil
	}
	addresses := strings.Join(c.Addresses, ", ")
	if policies[c.Policy] == redisquota.Closed || refusesLogin(err) {
		return fmt.Errorf("cannot reach Redis at %s: %w", addresses, err)
	}
	logger.Warn("Redis does not answer; quotas are answered by the policy until it does", "policy", c.Policy, "addresses", addresses, "error", err)
	return nil
}

func refusesLogin(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	return code == "WRONGPASS" || code == "NOAUTH" || code == "NOPERM"
}

// redisLogger sends what the Redis client has to say to the log.
type redisLogger struct{ logger *slog.Logger }

func (l redisLogger) Printf(_ context.Context, format string, args ...any) {
	l.logger.Debug("redis: " + fmt.Sprintf(format, args...))
}

// counted is a sink that says what became of its records.
type counted interface {
	expediter.Sink
	metrics.Sink
	Close(context.Context) error
}

// openUsage opens the sinks that are named, beside the metrics.
func (s *stores) openUsage(c *usageConfig, m *metrics.Metrics, logger *slog.Logger) error {
	report := func(err error) { logger.Error("usage records cannot be written", "error", err) }
	sinks := []expediter.Sink{m}
	add := func(name string, sink counted) {
		m.WatchSink(name, sink)
		sinks = append(sinks, sink)
		s.closers = append(s.closers, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := sink.Close(ctx); err != nil {
				logger.Error("usage records were lost", "sink", name, "error", err)
			}
		})
	}
	if c.File != "" {
		f, err := usage.NewFile(usage.FileConfig{Path: c.File, MaxBytes: c.MaxSize, Report: report})
		if err != nil {
			return err
		}
		add("file", f)
	}
	if c.Stream != "" {
		r, err := usage.NewRedis(s.client, usage.RedisConfig{Stream: c.Stream, Report: report})
		if err != nil {
			return err
		}
		add("redis", r)
	}
	s.usage = usage.NewMulti(sinks...)
	return nil
}
