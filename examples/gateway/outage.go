package main

import (
	"log/slog"
	"strings"
	"time"

	"github.com/expediterhq/expediter/quota/redisquota"
)

// watchOutages logs when the quota store loses Redis and when Redis is back.
// It asks stats at each tick until stop is closed.
func watchOutages(ticks <-chan time.Time, stop <-chan struct{}, stats func() redisquota.Stats, c *redisConfig, logger *slog.Logger) {
	down := false
	for {
		select {
		case <-stop:
			return
		case <-ticks:
		}
		s := stats()
		if s.Down == down {
			continue
		}
		if down = s.Down; down {
			logger.Warn("Redis is away; quotas are answered by the policy", "policy", c.Policy, "addresses", strings.Join(c.Addresses, ", "), "error", s.Cause)
		} else {
			logger.Info("Redis is back", "pending", s.Pending, "dropped", s.Dropped)
		}
	}
}

// startWatch watches once a second until the function it returns has returned.
func startWatch(store *redisquota.Store, c *redisConfig, logger *slog.Logger) (end func()) {
	ticker := time.NewTicker(time.Second)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		watchOutages(ticker.C, stop, store.Stats, c, logger)
	}()
	return func() {
		ticker.Stop()
		close(stop)
		<-done
	}
}
