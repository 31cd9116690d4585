package registry

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// NoHeadroom is the PoolConfig.Headroom that lets claims fill a KV cache.
const NoHeadroom = -1.0

// PoolConfig says how a pool is called and what is assumed of its replicas.
type PoolConfig struct {
	Name        string        // must be set
	Headroom    float64       // share of each KV cache that stays free. If zero, 0.15; NoHeadroom for none
	KVTokens    int           // KV capacity in tokens assumed until reported. If zero, the least that another member has reported when the replica joins; unlimited if none has
	BlockSize   int           // tokens per KV block assumed until reported. If zero, 16
	StaleAfter  time.Duration // age at which a report is no longer used. If zero, 5 s
	PrefillRate float64       // prompt tokens per second until learned. If zero, 10,000
	StepTime    time.Duration // time per output token until learned. If zero, 30 ms
	MaxLoRA     int           // adapters on the GPU until reported. If zero, 1
	AdapterLoad time.Duration // time to load a LoRA adapter until learned. If zero, 300 ms
	Eject       EjectConfig   // when a replica is taken out of rotation
}

func (c PoolConfig) withDefaults() PoolConfig {
	if c.Headroom == 0 {
		c.Headroom = 0.15
	}
	c.Headroom = max(c.Headroom, 0)
	if c.BlockSize == 0 {
		c.BlockSize = 16
	}
	if c.StaleAfter == 0 {
		c.StaleAfter = 5 * time.Second
	}
	if c.PrefillRate == 0 {
		c.PrefillRate = 10_000
	}
	if c.StepTime == 0 {
		c.StepTime = 30 * time.Millisecond
	}
	if c.MaxLoRA == 0 {
		c.MaxLoRA = 1
	}
	if c.AdapterLoad == 0 {
		c.AdapterLoad = 300 * time.Millisecond
	}
	c.Eject = c.Eject.withDefaults()
	return c
}

func (c PoolConfig) validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("registry: pool %q: "+format, append([]any{c.Name}, args...)...))
		}
	}
	bad(c.Name != "", "name: expected a name")
	bad(c.Headroom >= 0 && c.Headroom < 1 || c.Headroom == NoHeadroom, "headroom: expected a share from 0 to below 1, or %v for none, got %v", NoHeadroom, c.Headroom)
	bad(c.KVTokens >= 0, "kv tokens: expected 0 or more, got %d", c.KVTokens)
	bad(c.BlockSize >= 0, "block size: expected 0 or more, got %d", c.BlockSize)
	bad(c.StaleAfter >= 0, "stale after: expected 0 or more, got %v", c.StaleAfter)
	bad(c.PrefillRate == 0 || c.PrefillRate >= minPrefillRate && c.PrefillRate <= maxPrefillRate,
		"prefill rate: expected %d to %d tokens/s, got %v", minPrefillRate, maxPrefillRate, c.PrefillRate)
	bad(c.StepTime == 0 || c.StepTime >= minStepTime && c.StepTime <= maxStepTime,
		"step time: expected %v to %v, got %v", minStepTime, maxStepTime, c.StepTime)
	bad(c.AdapterLoad >= 0, "adapter load: expected 0 or more, got %v", c.AdapterLoad)
	bad(c.MaxLoRA >= 0, "max lora: expected 0 or more, got %d", c.MaxLoRA)
	return errors.Join(append(errs, c.Eject.validate(c.Name))...)
}

// Pool is a set of interchangeable replicas of one model.
type Pool struct {
	name        string
	cfg         atomic.Pointer[PoolConfig]
	replicas    atomic.Pointer[[]*Replica]
	slots       atomic.Int64
	generations atomic.Uint64
	epoch       atomic.Uint64
	onChange    atomic.Pointer[[]*hearer]
	speed       speed // of a replica of weight 1
	line        line  // from which speed.prefill is read
	mix         mix
	adapterLoad average    // seconds; 0 = nothing learned
	mu          sync.Mutex // held to change membership, onChange, news or the health of a replica
	news        news
}

// NewPool returns an empty pool. The error names every mistake in cfg.
func NewPool(cfg PoolConfig) (*Pool, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Pool{name: cfg.Name}
	cfg = cfg.withDefaults()
	p.cfg.Store(&cfg)
	p.replicas.Store(new([]*Replica))
	p.onChange.Store(new([]*hearer))
	return p, nil
}

// Name returns the pool's name.
func (p *Pool) Name() string { return p.name }

// Config returns the pool's configuration with its defaults filled in.
func (p *Pool) Config() PoolConfig { return *p.cfg.Load() }

// BlockSize returns the tokens per KV block that a replica reported, or else
// the configured size.
func (p *Pool) BlockSize() int {
	for _, r := range p.Replicas() {
		if s := r.State(); s != nil && s.BlockSize > 0 {
			return s.BlockSize
		}
	}
	return p.cfg.Load().BlockSize
}

// Replicas returns the pool's members in order of joining. The slice is a
// snapshot shared by all callers and must not be modified. It takes no lock
// and does not allocate.
func (p *Pool) Replicas() []*Replica { return *p.replicas.Load() }

// Slots returns one more than the highest slot in use.
func (p *Pool) Slots() int { return int(p.slots.Load()) }

// Add makes a replica a member, in the lowest free slot. The error names
// every mistake in cfg; a name or an address that a member has is one.
func (p *Pool) Add(cfg ReplicaConfig) (*Replica, error) {
	target, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("registry: pool %q: %w", p.name, err)
	}
	r, err := p.join(cfg, target)
	if err != nil {
		return nil, err
	}
	p.changed()
	return r, nil
}

var errAddressTaken = errors.New("is taken")

func (p *Pool) join(cfg ReplicaConfig, target *url.URL) (*Replica, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.Replicas()
	if err := p.clash(old, cfg.Name, target); err != nil {
		return nil, err
	}
	r := p.newReplica(cfg, target, freeSlot(old))
	p.storeLocked(append(old[:len(old):len(old)], r))
	return r, nil
}

// clash says what keeps a replica from being beside members: each must have a
// name and an address of its own.
func (p *Pool) clash(members []*Replica, name string, target *url.URL) error {
	var errs []error
	for _, r := range members {
		if sameAddress(r.target, target) {
			errs = append(errs, fmt.Errorf("registry: pool %q: replica %q: url: %w by replica %q", p.name, name, errAddressTaken, r.name))
		} else if r.name == name {
			errs = append(errs, fmt.Errorf("registry: pool %q: replica %q: name is taken", p.name, name))
		}
	}
	return errors.Join(errs...)
}

// Remove ends r's membership. Leases on it stay valid and may be released as
// usual. Its slot may be given to a replica that joins later, which then has
// another generation.
func (p *Pool) Remove(r *Replica) {
	p.mu.Lock()
	old := p.Replicas()
	next := make([]*Replica, 0, len(old))
	for _, o := range old {
		if o != r {
			next = append(next, o)
		}
	}
	found := len(next) < len(old)
	if found {
		p.replaceLocked(next, []*Replica{r})
	}
	p.mu.Unlock()
	if found {
		p.tell()
		p.changed()
	}
}

func (p *Pool) storeLocked(next []*Replica) {
	slots := 0
	for _, r := range next {
		slots = max(slots, r.slot+1)
	}
	// Slots grows before the members that need it appear and shrinks after
	// they are gone, so that a reader who asks for the members first and the
	// size second never has too little room.
	if int64(slots) > p.slots.Load() {
		p.slots.Store(int64(slots))
	}
	p.replicas.Store(&next)
	p.slots.Store(int64(slots))
	p.epoch.Add(1)
}

// Epoch grows whenever a replica joins, leaves or starts another generation,
// after the change is visible. While it stands still, what is known by slot
// stays valid. It costs one atomic load.
func (p *Pool) Epoch() uint64 { return p.epoch.Load() }

func freeSlot(members []*Replica) int {
	taken := make([]bool, len(members)+1)
	for _, r := range members {
		if r.slot < len(taken) {
			taken[r.slot] = true
		}
	}
	slot := 0
	for taken[slot] {
		slot++
	}
	return slot
}

// OnChange adds a function to be called whenever room may have appeared or
// membership changed: a lease ended, a first token arrived, a report came in,
// a replica joined, left or was readmitted. It is called from whichever
// goroutine made the change, without a lock of the pool's, so it must be quick
// and must not call the Static or the DNS that made it. After stop f is not
// called for later changes.
func (p *Pool) OnChange(f func()) (stop func()) {
	h := &hearer{f}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := append(slices.Clip(*p.onChange.Load()), h)
	p.onChange.Store(&next)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(*p.onChange.Load()), func(o *hearer) bool { return o == h })
		p.onChange.Store(&rest)
	}
}

// hearer is who hears of changes.
type hearer struct{ f func() }

func (p *Pool) changed() {
	for _, h := range *p.onChange.Load() {
		h.f()
	}
}

// Load returns the sum of the ledgers of all members.
func (p *Pool) Load() Load {
	var sum Load
	for _, r := range p.Replicas() {
		sum = sum.Add(r.Load())
	}
	return sum
}

// MeanPrefill returns the uncached prompt tokens of the average sequence that
// this process sends to the pool, recent ones counting most; 0 before the
// first.
func (p *Pool) MeanPrefill() float64 { return p.mix.prefill.value() }

// Capacity returns the KV tokens that the members may hold together below
// their headroom. known is false while some member's capacity is unknown; it
// then counts as nothing. It is a sum: a request needs room on one replica.
func (p *Pool) Capacity() (kvTokens int, known bool) {
	replicas := p.Replicas()
	known = len(replicas) > 0
	for _, r := range replicas {
		full, usable := r.Capacity()
		if full == 0 {
			known = false
		}
		kvTokens += usable
	}
	return kvTokens, known
}
