package expediter

import (
	"cmp"
	"log/slog"
	"time"
)

// withDefaults returns c with what its fields say of zero put in.
func (c Config) withDefaults() Config {
	c.Limits.Body = cmp.Or(c.Limits.Body, 8<<20)
	c.Limits.Bodies = cmp.Or(c.Limits.Bodies, 1<<30)
	c.Limits.Answer = cmp.Or(c.Limits.Answer, 64<<20)
	c.Limits.Event = cmp.Or(c.Limits.Event, 16<<20)
	c.Limits.Head = cmp.Or(c.Limits.Head, 64<<10)
	c.Limits.Fields = cmp.Or(c.Limits.Fields, 100)
	c.Limits.Choices = cmp.Or(c.Limits.Choices, 16)
	c.Limits.Prompts = cmp.Or(c.Limits.Prompts, 128)
	c.Timeouts.Body = cmp.Or(c.Timeouts.Body, 30*time.Second)
	c.Timeouts.FirstToken = cmp.Or(c.Timeouts.FirstToken, 60*time.Second)
	c.Timeouts.Silence = cmp.Or(c.Timeouts.Silence, 30*time.Second)
	c.Timeouts.Answer = cmp.Or(c.Timeouts.Answer, 10*time.Minute)
	c.Timeouts.Write = cmp.Or(c.Timeouts.Write, 30*time.Second)
	c.Timeouts.Settle = cmp.Or(c.Timeouts.Settle, 5*time.Second)
	c.Retry.Attempts = cmp.Or(c.Retry.Attempts, 3)
	c.Retry.Ratio = cmp.Or(c.Retry.Ratio, 0.1)
	c.Retry.Burst = cmp.Or(c.Retry.Burst, 64)
	c.Retry.Kills = cmp.Or(c.Retry.Kills, 2)
	c.Scrape = cmp.Or(c.Scrape, time.Second)
	c.Parity = cmp.Or(c.Parity, 10*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Refused == nil {
		c.Refused = func(int) {}
	}
	return c
}
