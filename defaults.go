package expediter

import (
	"log/slog"
	"time"
)

// or returns v, or def where v is zero.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (c Config) withDefaults() Config {
	c.Limits.Body = or(c.Limits.Body, 8<<20)
	c.Limits.Bodies = or(c.Limits.Bodies, 1<<30)
	c.Limits.Answer = or(c.Limits.Answer, 64<<20)
	c.Limits.Event = or(c.Limits.Event, 16<<20)
	c.Limits.Choices = or(c.Limits.Choices, 16)
	c.Limits.Prompts = or(c.Limits.Prompts, 128)
	c.Timeouts.Body = or(c.Timeouts.Body, 30*time.Second)
	c.Timeouts.FirstToken = or(c.Timeouts.FirstToken, 60*time.Second)
	c.Timeouts.Silence = or(c.Timeouts.Silence, 30*time.Second)
	c.Timeouts.Answer = or(c.Timeouts.Answer, 10*time.Minute)
	c.Timeouts.Write = or(c.Timeouts.Write, 30*time.Second)
	c.Timeouts.Settle = or(c.Timeouts.Settle, 5*time.Second)
	c.Retry.Attempts = or(c.Retry.Attempts, 3)
	c.Retry.Ratio = or(c.Retry.Ratio, 0.1)
	c.Retry.Burst = or(c.Retry.Burst, 64)
	c.Retry.Kills = or(c.Retry.Kills, 2)
	c.Scrape = or(c.Scrape, time.Second)
	c.Parity = or(c.Parity, 10*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Refused == nil {
		c.Refused = func(int) {}
	}
	return c
}
