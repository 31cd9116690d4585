package fleet

import (
	"errors"
	"fmt"
	"time"

	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim"
)

// Config describes a fleet. Replicas must be set.
type Config struct {
	Replicas []Replica
	Changes  []Change // what happens to replicas, in any order

	Gateways int // each with books, prefix map and line of its own; if zero, 1
	// Router makes the router of one gateway. If nil, router.New with the
	// default rule.
	Router func(seed uint64) *router.Router
	// Prefix makes the prefix map of one gateway. If nil, prefix.NewTable.
	Prefix func() prefix.Map
	Pool   registry.PoolConfig // Name and BlockSize are filled in
	Line   admission.Config

	// Direct sends every request at once, wherever the router says, and hides
	// the replicas' capacity from the books, so that no lease is refused:
	// requests then wait in the engines, as behind a plain load balancer.
	Direct bool

	// Expect returns the output tokens a gateway expects of a request, which
	// is what it claims KV cache for. If nil, each gateway learns it of the
	// answers it has seen, with admission.Outputs.
	Expect func(r *Request) int
	// Tenant describes a tenant. If nil, all have tier 0, weight 1 and no limit.
	Tenant func(name string) Tenant

	Scrape    time.Duration // between two looks at a replica's metrics; if zero, 500 ms; negative: never
	MetricAge time.Duration // how old metrics are when they arrive, beyond the delay
	Delay     time.Duration // one way, between gateway and replica

	MaxWait    time.Duration // the longest a request waits in line; if zero, 30 s
	FirstToken time.Duration // the longest a replica may take to the first token; if zero, 60 s
	Silence    time.Duration // the longest between tokens; if zero, 30 s
	Attempts   int           // replicas tried for one request; if zero, 3

	SLO    SLO
	Sample time.Duration // between two points of Report.Series; if zero, 1 s
	Seed   uint64        // of whatever is drawn by lot
}

// Replica is one replica of the fleet.
type Replica struct {
	Name    string // if empty, "replica-N"
	Zone    string
	Profile sim.Profile
	Engine  sim.EngineConfig // scheduling; its Profile is replaced by the one above
	Slow    float64          // its steps take so many times as long; if zero, 1

	Join  time.Duration // when it becomes a member; if zero, it is from the start
	Leave time.Duration // when it stops getting requests; if zero, never
}

// Uniform returns n equal replicas.
func Uniform(n int, p sim.Profile) []Replica {
	rs := make([]Replica, n)
	for i := range rs {
		rs[i].Profile = p
	}
	return rs
}

// Change is something that happens to a replica.
type Change struct {
	At      time.Duration
	Replica int // its place in Config.Replicas
	Do      Event
	Slow    float64 // with Slowdown: steps take so many times as long
}

// Event is a kind of Change.
type Event int

// The events.
const (
	Kill     Event = iota // the process dies: requests break, connections are refused
	Start                 // a new process in place of a dead one: empty cache, counters at zero
	Restart               // Kill and Start in one
	Hang                  // no step ends any more, though probes are answered
	Resume                // a hung engine goes on
	Slowdown              // steps take Change.Slow times as long from now on
)

// Tenant is how a tenant is served.
type Tenant struct {
	Tier   int
	Weight float64     // if zero, 1
	Limit  quota.Limit // the zero Limit limits nothing
}

// SLO is the service objective a finished request is held to. A zero bound
// always holds.
type SLO struct {
	TTFT time.Duration // to the first token
	TPOT time.Duration // per output token after it, mean of the request
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.Scrape, 500*time.Millisecond)
	set(&c.MaxWait, 30*time.Second)
	set(&c.FirstToken, 60*time.Second)
	set(&c.Silence, 30*time.Second)
	set(&c.Sample, time.Second)
	if c.Gateways == 0 {
		c.Gateways = 1
	}
	if c.Attempts == 0 {
		c.Attempts = 3
	}
	if c.Router == nil {
		c.Router = func(uint64) *router.Router { return router.New(router.Config{}) }
	}
	if c.Prefix == nil {
		c.Prefix = func() prefix.Map { return prefix.NewTable(prefix.TableConfig{}) }
	}
	if c.Tenant == nil {
		c.Tenant = func(string) Tenant { return Tenant{} }
	}
	c.Replicas = append([]Replica(nil), c.Replicas...)
	for i := range c.Replicas {
		r := &c.Replicas[i]
		if r.Name == "" {
			r.Name = fmt.Sprintf("replica-%d", i)
		}
		if r.Slow == 0 {
			r.Slow = 1
		}
		if r.Profile.BlockSize == 0 {
			r.Profile.BlockSize = 16
		}
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("fleet: "+format, args...))
		}
	}
	bad(len(c.Replicas) > 0, "replicas: expected at least one")
	bad(c.Gateways >= 0, "gateways: expected 0 or more, got %d", c.Gateways)
	bad(c.Attempts >= 0, "attempts: expected 0 or more, got %d", c.Attempts)
	bad(c.Delay >= 0 && c.MetricAge >= 0, "delay, metric age: expected 0 or more, got %v, %v", c.Delay, c.MetricAge)
	bad(c.MaxWait >= 0 && c.FirstToken >= 0 && c.Silence >= 0 && c.Sample >= 0, "max wait, first token, silence, sample: expected 0 or more")
	members := false
	names := map[string]bool{}
	for i, r := range c.Replicas {
		bad(r.Name == "" || !names[r.Name], "replicas: two are called %q", r.Name)
		names[r.Name] = true
		members = members || r.Join == 0
		bad(r.Slow >= 0, "replica %d: slow: expected 0 or more, got %v", i, r.Slow)
		bad(r.Leave == 0 || r.Leave > r.Join, "replica %d: leaves at %v, before it joins at %v", i, r.Leave, r.Join)
		bad(max(r.Profile.BlockSize, 16) == max(c.Replicas[0].Profile.BlockSize, 16),
			"replica %d: block size %d differs from the others'", i, r.Profile.BlockSize)
	}
	bad(members || len(c.Replicas) == 0, "replicas: expected one that is there from the start")
	for i, ch := range c.Changes {
		bad(ch.Replica >= 0 && ch.Replica < len(c.Replicas), "change %d: no replica %d", i, ch.Replica)
		bad(ch.Do != Slowdown || ch.Slow > 0, "change %d: slow: expected more than 0, got %v", i, ch.Slow)
		bad(ch.At >= 0, "change %d: at: expected 0 or more, got %v", i, ch.At)
	}
	return errors.Join(errs...)
}
