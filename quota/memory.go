package quota

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// MemoryConfig configures a Memory. The zero value is ready to use.
type MemoryConfig struct {
	// MaxTenants bounds how many tenants are known at once. A tenant that holds
	// nothing, has regained everything it spent and has no id left to remember is
	// dropped for another; if there is none, Reserve of a new tenant fails with
	// an *UnavailableError. If zero, 100,000.
	MaxTenants int
	// MaxRemembered bounds how many ended reservations are remembered; beyond it
	// the oldest ids are forgotten before their time. If zero, 262,144.
	MaxRemembered int
	// Now is the clock. If nil, time.Now.
	Now func() time.Time
}

const shards = 16

// Memory is a Store in the memory of one process: exact for one gateway, and
// forgotten when that ends. It starts no goroutine.
type Memory struct {
	seed       maphash.Seed
	now        func() int64 // nanoseconds since the start
	maxTenants int64
	tenants    atomic.Int64
	shards     [shards]shard
}

// shard holds the tenants whose ids share a hash.
type shard struct {
	mu       sync.Mutex
	accounts map[string]*account
	order    []*account // the same, to look for idle ones in turn
	hand     int
	free     *entry // recycled
	settled  fifo   // to be forgotten after Remember
	expired  fifo   // to be forgotten after RememberExpired
	_        [64]byte
}

// NewMemory returns an empty Memory.
func NewMemory(c MemoryConfig) *Memory {
	if c.MaxTenants <= 0 {
		c.MaxTenants = 100_000
	}
	if c.MaxRemembered <= 0 {
		c.MaxRemembered = 262_144
	}
	m := &Memory{seed: maphash.MakeSeed(), now: since(c.Now), maxTenants: int64(c.MaxTenants)}
	for i := range m.shards {
		s := &m.shards[i]
		s.accounts = map[string]*account{}
		s.settled.max = max(c.MaxRemembered/shards, 1)
		s.expired.max = s.settled.max
	}
	return m
}

// lock returns the tenant's shard, locked, and the time, read under the lock.
func (m *Memory) lock(tenant string) (*shard, int64) {
	s := &m.shards[maphash.String(m.seed, tenant)%shards]
	s.mu.Lock()
	return s, m.now()
}

// since returns the time passed since this call by the clock, or by the
// monotonic one if clock is nil.
func since(clock func() time.Time) func() int64 {
	if clock == nil {
		start := time.Now()
		return func() int64 { return int64(time.Since(start)) }
	}
	start := clock()
	return func() int64 { return int64(clock().Sub(start)) }
}

// Reserve implements Store. It does not allocate when the tenant is known and
// the answer is yes, and it does not wait for anything but a mutex.
func (m *Memory) Reserve(ctx context.Context, r Reservation) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.Check(); err != nil {
		return err
	}
	if err := r.Fits(); err != nil {
		return err
	}
	err := m.reserve(&r)
	if err == errFull {
		m.sweep()
		err = m.reserve(&r)
	}
	return full(err)
}

func (m *Memory) reserve(r *Reservation) error {
	s, now := m.lock(r.Tenant)
	defer s.mu.Unlock()
	s.forget(now)
	a := s.accounts[r.Tenant]
	if a != nil {
		s.expire(a, now)
		if e := a.ids[r.ID]; e != nil {
			return e.refuse(r)
		}
	}
	if a == nil {
		var err error
		if a, err = m.open(s, r.Tenant, now); err != nil {
			return err
		}
	}
	if err := a.room(r, now); err != nil {
		return err
	}
	e := s.entry(a, r)
	e.live(now, r)
	a.charge(e, float64(r.Cost))
	return nil
}

// Settle implements Store.
func (m *Memory) Settle(_ context.Context, r Reservation, used int64) error {
	if err := r.CheckUsed(used); err != nil {
		return err
	}
	err := m.settle(&r, used)
	if err == errFull {
		m.sweep()
		err = m.settle(&r, used)
	}
	return full(err)
}

func (m *Memory) settle(r *Reservation, used int64) error {
	s, now := m.lock(r.Tenant)
	defer s.mu.Unlock()
	s.forget(now)
	a, e, err := m.find(s, r, now)
	if err != nil {
		return err
	}
	if e.state == entrySettled {
		return nil
	}
	a.drain(e, now)
	a.charge(e, float64(used-e.held()))
	a.charged += used - e.final()
	s.leave(e)
	e.state, e.at = entrySettled, now
	s.settled.push(e)
	return nil
}

// Renew implements Store.
func (m *Memory) Renew(_ context.Context, rs []Reservation) error {
	var errs []error
	for i := range rs {
		r := &rs[i]
		if err := r.Check(); err != nil {
			errs = append(errs, err)
			continue
		}
		err := m.renew(r)
		if err == errFull {
			m.sweep()
			err = m.renew(r)
		}
		if err := full(err); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *Memory) renew(r *Reservation) error {
	s, now := m.lock(r.Tenant)
	defer s.mu.Unlock()
	s.forget(now)
	a, e, err := m.find(s, r, now)
	if err != nil {
		return err
	}
	if e.state == entrySettled {
		return nil
	}
	a.drain(e, now)
	a.charge(e, float64(r.Cost-e.held()))
	a.charged -= e.final()
	s.leave(e)
	e.live(now, r)
	return nil
}

// find returns the reservation's account and entry, and makes those that are
// missing.
func (m *Memory) find(s *shard, r *Reservation, now int64) (*account, *entry, error) {
	a := s.accounts[r.Tenant]
	if a == nil {
		var err error
		if a, err = m.open(s, r.Tenant, now); err != nil {
			return nil, nil, err
		}
	}
	s.expire(a, now)
	e := a.ids[r.ID]
	if e == nil {
		a.look(r, now)
		e = s.entry(a, r)
	}
	return a, e, nil
}

// errFull says that there is no place for another tenant in this shard or at
// all.
var errFull = errors.New("quota: too many tenants in memory")

// full gives errFull the form that callers know.
func full(err error) error {
	if err == errFull {
		return &UnavailableError{After: time.Second, Err: err}
	}
	return err
}

// open makes the tenant's account, in the place of an idle one of its shard if
// need be.
func (m *Memory) open(s *shard, tenant string, now int64) (*account, error) {
	if s.dropIdle(now, 4) {
		m.tenants.Add(-1)
	}
	if m.tenants.Add(1) > m.maxTenants {
		m.tenants.Add(-1)
		return nil, errFull
	}
	a := &account{tenant: tenant, ids: map[string]*entry{}, names: map[string]int32{}}
	s.accounts[tenant] = a
	s.order = append(s.order, a)
	return a, nil
}

// sweep makes room by dropping one idle tenant. The caller holds no lock.
func (m *Memory) sweep() {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		now := m.now()
		s.forget(now)
		dropped := s.dropIdle(now, 64)
		s.mu.Unlock()
		if dropped {
			m.tenants.Add(-1)
			return
		}
	}
}

// dropIdle looks at the next few tenants in turn and drops the first idle one.
func (s *shard) dropIdle(now int64, tries int) bool {
	for range min(tries, len(s.order)) {
		s.hand = (s.hand + 1) % len(s.order)
		if a := s.order[s.hand]; s.idle(a, now) {
			last := len(s.order) - 1
			s.order[s.hand] = s.order[last]
			s.order[last] = nil
			s.order = s.order[:last]
			delete(s.accounts, a.tenant)
			return true
		}
	}
	return false
}

// Holds reports whether the reservation is held: made, and neither settled nor
// run out.
func (m *Memory) Holds(tenant, id string) bool {
	s, now := m.lock(tenant)
	defer s.mu.Unlock()
	a := s.accounts[tenant]
	if a == nil {
		return false
	}
	s.expire(a, now)
	e := a.ids[id]
	return e != nil && e.state == entryLive
}

// Balance implements Auditor. A tenant that was dropped has a zero Balance.
func (m *Memory) Balance(_ context.Context, tenant string) (Balance, error) {
	s, now := m.lock(tenant)
	defer s.mu.Unlock()
	s.forget(now)
	a := s.accounts[tenant]
	if a == nil {
		return Balance{}, nil
	}
	s.expire(a, now)
	return a.balance(now), nil
}
