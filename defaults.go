package expediter

import (
	"cmp"
	"log/slog"
	"time"
)

// withDefaults returns c with what its fields say of zero put in.
func (c Config) withDefaults() Config {
	c.Limits = c.Limits.WithDefaults()
	c.Timeouts = c.Timeouts.WithDefaults()
	c.Retry = c.Retry.WithDefaults()
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

// WithDefaults returns l with the limits that hold where it has zero.
func (l Limits) WithDefaults() Limits {
	l.Body = cmp.Or(l.Body, 8<<20)
	l.Bodies = cmp.Or(l.Bodies, 1<<30)
	l.Answer = cmp.Or(l.Answer, 64<<20)
	l.Event = cmp.Or(l.Event, 16<<20)
	l.Head = cmp.Or(l.Head, 64<<10)
	l.Fields = cmp.Or(l.Fields, 100)
	l.Choices = cmp.Or(l.Choices, 16)
	l.Prompts = cmp.Or(l.Prompts, 128)
	return l
}

// WithDefaults returns t with the times that hold where it has zero.
func (t Timeouts) WithDefaults() Timeouts {
	t.Body = cmp.Or(t.Body, 30*time.Second)
	t.FirstToken = cmp.Or(t.FirstToken, 60*time.Second)
	t.Silence = cmp.Or(t.Silence, 30*time.Second)
	t.Answer = cmp.Or(t.Answer, 10*time.Minute)
	t.Write = cmp.Or(t.Write, 30*time.Second)
	t.Settle = cmp.Or(t.Settle, 5*time.Second)
	return t
}

// WithDefaults returns r with the numbers that hold where it has zero.
func (r Retry) WithDefaults() Retry {
	r.Attempts = cmp.Or(r.Attempts, 3)
	r.Ratio = cmp.Or(r.Ratio, 0.1)
	r.Burst = cmp.Or(r.Burst, 64)
	r.Kills = cmp.Or(r.Kills, 2)
	return r
}
