package main

import (
	"cmp"
	"time"

	"github.com/expediterhq/expediter/quota/redisquota"
)

// setDefaults fills in the numbers that the file leaves out or has as 0, where
// 0 stands for another number.
func (c *config) setDefaults() {
	c.Grace = cmp.Or(c.Grace, 30*time.Second)
	c.Scrape = cmp.Or(c.Scrape, time.Second)
	for i := range c.Pools {
		c.Pools[i].setDefaults()
	}
	c.Redis.setDefaults()
	if c.Usage.File != "" {
		c.Usage.MaxSize = cmp.Or(c.Usage.MaxSize, 256<<20)
	}
	l, t, r := c.Limits.library().WithDefaults(), c.Timeouts.library().WithDefaults(), c.Retry.library().WithDefaults()
	c.Limits = limitsConfig{l.Body, l.Bodies, l.Choices, l.Prompts}
	c.Timeouts = timeoutsConfig{t.Body, t.FirstToken, t.Silence, t.Answer, t.Write}
	c.Retry = retryConfig{r.Attempts, r.Ratio, r.Burst, r.Kills}
}

func (pc *poolConfig) setDefaults() {
	pc.DefaultMaxTokens = cmp.Or(pc.DefaultMaxTokens, 1024)
	pc.MaxWait = cmp.Or(pc.MaxWait, 30*time.Second)
	pc.Headroom = cmp.Or(pc.Headroom, 0.15)
	if pc.DNS.Host != "" {
		pc.DNS.Interval = cmp.Or(pc.DNS.Interval, 5*time.Second)
		pc.DNS.Timeout = cmp.Or(pc.DNS.Timeout, 2*time.Second)
		pc.DNS.Misses = cmp.Or(pc.DNS.Misses, 3)
	}
}

func (c *redisConfig) setDefaults() {
	if len(c.Addresses) == 0 {
		return
	}
	c.Timeout = cmp.Or(c.Timeout, 100*time.Millisecond)
	patience := 5 * time.Millisecond
	if policies[c.Policy] == redisquota.Closed {
		patience = 25 * time.Millisecond
	}
	c.Patience = cmp.Or(c.Patience, patience)
}
