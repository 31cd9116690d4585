package redisquota

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Policy says what Reserve answers while Redis cannot be asked.
type Policy uint8

// The policies. The zero value is none of them.
const (
	Closed     Policy = iota + 1 // refuse, with *quota.UnavailableError
	Open                         // let everything through
	LocalShare                   // grant Config.Share of each limit from this process's memory
)

// Config configures a Store.
type Config struct {
	// Policy is what happens while Redis is away. It must be set.
	Policy Policy
	// Share is the part of every limit that this gateway may grant by itself
	// under LocalShare, above 0 and at most 1; with n equal gateways, 1/n.
	Share float64
	// Prefix begins every key. It may not contain braces.
	// If zero, "expediter:quota:".
	Prefix string
	// Timeout is the longest a call waits for Redis, repetition included. It
	// should be five round trips or more. If zero, 100 ms.
	Timeout time.Duration
	// Patience is how much longer than it usually takes Redis may say nothing at
	// all before the policy answers until it speaks again: see the package
	// documentation. Timeout or more makes every call wait for up to Timeout.
	// If zero, 5 ms, and 25 ms under Closed, where the policy's answer is a refusal.
	Patience time.Duration
	// Keep is how long a tenant that nobody uses is remembered. A window that
	// needs longer to drain is empty again after it. If zero, 35 days; at least
	// 25 hours.
	Keep time.Duration
	// Backlog is how many settlements are kept for a Redis that is away.
	// If zero, 100,000.
	Backlog int
	// Now is the clock for what concerns this process alone: the age of the
	// backlog and the memory of LocalShare. If nil, time.Now.
	Now func() time.Time
	// Logger takes what no caller may hear of: tenants whose keys Redis refuses, other
	// errors that it answers with while it takes writes, and settlements that were
	// given up. If nil, slog.Default().
	Logger *slog.Logger
}

// withDefaults returns c complete, or all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("redisquota: "+format, args...)) }
	switch {
	case c.Policy < Closed || c.Policy > LocalShare:
		wrong("Policy must be set to Closed, Open or LocalShare")
	case c.Policy == LocalShare && !(c.Share > 0 && c.Share <= 1):
		wrong("Share is %v: want above 0 and at most 1", c.Share)
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		wrong("Prefix %q has braces", c.Prefix)
	}
	if c.Timeout < 0 {
		wrong("Timeout is %v: want 0 or more", c.Timeout)
	}
	if c.Patience < 0 {
		wrong("Patience is %v: want 0 or more", c.Patience)
	}
	if c.Keep != 0 && c.Keep < 25*time.Hour {
		wrong("Keep is %v: want at least 25h", c.Keep)
	}
	if c.Backlog < 0 {
		wrong("Backlog is %d: want 0 or more", c.Backlog)
	}
	if c.Prefix == "" {
		c.Prefix = "expediter:quota:"
	}
	if c.Timeout == 0 {
		c.Timeout = 100 * time.Millisecond
	}
	if c.Patience == 0 {
		c.Patience = 5 * time.Millisecond
		if c.Policy == Closed {
			c.Patience = 25 * time.Millisecond
		}
	}
	if c.Keep == 0 {
		c.Keep = 35 * 24 * time.Hour
	}
	if c.Backlog == 0 {
		c.Backlog = 100_000
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, errors.Join(errs...)
}

// Client returns a client for o with what New asks of it: no retries of its own
// and contexts that end waits. A failed dial does not keep it from the next one: a
// client made in another way tries only once a second after PoolSize failed dials,
// and the store cannot see sooner that Redis is back. It also
// shortens what o leaves at zero: one dial attempt of a second, reads and writes of
// a second, 16 connections, and protocol 2 without CLIENT SETINFO, so that a
// connection is ready after one round trip.
func Client(o redis.UniversalOptions) redis.UniversalClient {
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	if o.DialerRetries == 0 {
		o.DialerRetries = 1
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = time.Second
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = time.Second
	}
	if o.PoolSize == 0 {
		o.PoolSize = 16
	}
	if o.Protocol == 0 {
		o.Protocol = 2
	}
	o.DisableIdentity = true
	c := redis.NewUniversalClient(&o)
	addDialHook(c)
	return c
}

// checkClient refuses clients whose settings would break the promises. Types it
// does not know are taken at their word.
func checkClient(c redis.UniversalClient) error {
	var retries int
	var timeouts bool
	switch c := c.(type) {
	case nil:
		return errors.New("redisquota: no client")
	case *redis.Ring:
		return errors.New("redisquota: a Ring moves tenants between servers that do not know them: use a cluster")
	case *redis.Client:
		retries, timeouts = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		retries, timeouts = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	default:
		return nil
	}
	var errs []error
	if retries > 0 {
		errs = append(errs, fmt.Errorf("redisquota: the client's MaxRetries is %d: want -1", retries))
	}
	if !timeouts {
		errs = append(errs, errors.New("redisquota: the client's ContextTimeoutEnabled must be true"))
	}
	return errors.Join(errs...)
}
