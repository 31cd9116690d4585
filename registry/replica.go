package registry

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// ReplicaConfig names one replica.
type ReplicaConfig struct {
	Name   string  // unique in its pool. If empty, the URL
	URL    string  // base address without /v1: http or https, host, no credentials, query or fragment; unique in its pool
	Zone   string  // where it runs, or empty
	Weight float64 // speed relative to the pool's other replicas. If zero, 1
}

// complete fills in the defaults, writes the address in the form in which it
// is kept and returns it parsed, or an error that names every mistake.
func (c *ReplicaConfig) complete() (*url.URL, error) {
	label := c.label()
	if c.Weight == 0 {
		c.Weight = 1
	}
	var errs []error
	if !(c.Weight > 0) || math.IsInf(c.Weight, 0) {
		errs = append(errs, fmt.Errorf("%s: weight: expected a number above 0, got %v", label, c.Weight))
	}
	target, wrong := parseAddress(c.URL)
	if wrong != "" {
		errs = append(errs, fmt.Errorf("%s: url: %s", label, wrong))
	} else {
		c.URL = target.String()
	}
	if c.Name == "" {
		c.Name = c.URL
	}
	return target, errors.Join(errs...)
}

// label is how an error calls the replica: by its name, or else by its
// address unless that may hold a secret.
func (c *ReplicaConfig) label() string {
	switch {
	case c.Name != "":
		return fmt.Sprintf("replica %q", c.Name)
	case c.URL == "" || strings.ContainsAny(c.URL, "@?#"):
		return "replica"
	}
	return fmt.Sprintf("replica %q", c.URL)
}

// Replica is one engine that serves a pool's model.
type Replica struct {
	// What every pick reads comes first, so that it shares cache lines.
	ledger   ledger
	report   atomic.Pointer[report]
	speed    speed
	capacity atomic.Int64  // KV tokens; 0 = unknown
	usable   atomic.Int64  // of capacity, below the headroom
	out      atomic.Uint32 // why it is out of rotation, as bits; 0 = it is not
	failures atomic.Int32  // consecutive
	trial    atomic.Uint64 // the number of the trial that is out on an ejected replica; 0 = none is
	probing  atomic.Bool   // the last probes failed, and no token came: it is not tried again
	stands   atomic.Bool   // the engine has made no step for long while it had work
	until    atomic.Int64  // end of the pause of an ejected replica, in Unix nanoseconds
	failed   atomic.Int64  // when a request last failed, in Unix nanoseconds
	progress atomic.Int64  // when a token or a step was last seen, in Unix nanoseconds
	slot     int
	hash     uint64
	traits   atomic.Pointer[traits]

	name, url  string
	target     *url.URL // url, parsed
	pool       *Pool
	generation atomic.Uint64
	adapters   adapters
	mix        mix
	line       line // from which speed.prefill is read
	health     health
	found      bool       // by a discovery, and not listed since; guarded by the pool's lock
	reporting  sync.Mutex // serialises Report
}

// traits are what a reload may change of a replica that stays.
type traits struct {
	zone   string
	weight float64
}

// newReplica makes a replica of a completed configuration.
func (p *Pool) newReplica(cfg ReplicaConfig, target *url.URL, slot int) *Replica {
	r := &Replica{
		target: target,
		name:   cfg.Name, url: cfg.URL,
		pool: p, slot: slot, hash: hashName(cfg.Name),
	}
	r.traits.Store(&traits{zone: cfg.Zone, weight: cfg.Weight})
	r.generation.Store(p.generations.Add(1))
	r.setCapacity(p.assumed(p.cfg.Load().KVTokens))
	return r
}

// hashName is FNV-1a with a finalising mix: the same on every gateway.
func hashName(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Name returns the replica's name, unique in its pool.
func (r *Replica) Name() string { return r.name }

// URL returns the replica's base address, without a slash at the end.
func (r *Replica) URL() string { return r.url }

// Target returns the replica's base address, parsed once. It must not be
// modified.
func (r *Replica) Target() *url.URL { return r.target }

// Zone returns where the replica runs, or empty.
func (r *Replica) Zone() string { return r.traits.Load().zone }

// Weight returns the replica's speed relative to others of its pool.
func (r *Replica) Weight() float64 { return r.traits.Load().weight }

// Slot returns the replica's small number in its pool, by which per-replica
// arrays are indexed.
func (r *Replica) Slot() int { return r.slot }

// Pool returns the pool the replica belongs to.
func (r *Replica) Pool() *Pool { return r.pool }

// Hash returns a hash of the replica's name, the same in every process.
func (r *Replica) Hash() uint64 { return r.hash }

// Generation identifies one life of an engine: it differs between the
// replicas of a pool and grows with every detected restart. What was known of
// a slot's KV cache under another generation is void.
func (r *Replica) Generation() uint64 { return r.generation.Load() }

// Load returns what this process has in flight on the replica.
func (r *Replica) Load() Load { return r.ledger.load() }

// Capacity returns the KV cache's size in tokens, reported or assumed, and
// how much of it may be claimed below the headroom. Both are 0 while unknown.
func (r *Replica) Capacity() (full, usable int) {
	return int(r.capacity.Load()), int(r.usable.Load())
}

func (r *Replica) setCapacity(full int64) {
	r.capacity.Store(full)
	r.usable.Store(int64(float64(full) * (1 - r.config().Headroom)))
}

func (r *Replica) config() *PoolConfig { return r.pool.cfg.Load() }
