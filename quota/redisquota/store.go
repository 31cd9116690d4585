package redisquota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/quota"
)

// downFor is the wait that refusals for want of Redis name.
const downFor = time.Second

// Store is a quota.Store and quota.Auditor in Redis. It is safe for concurrent
// use. Close ends its goroutines.
type Store struct {
	client  redis.UniversalClient
	cfg     Config
	where   string // the addresses of Redis, for errors
	keep    any    // Config.Keep in milliseconds
	ops     sync.Pool
	lanes   []*lane
	local   *quota.Memory
	backlog backlog
	told    told
	toldAll told // of what concerns no tenant alone, as the tenant ""

	reserve, settle, renew, balance *script

	ctx     context.Context // ends with the store
	cancel  context.CancelFunc
	closing chan struct{}
	once    sync.Once
	wg      sync.WaitGroup

	busy  atomic.Int64  // batches under way
	awake chan struct{} // holds one: there is something to watch
}

// New returns a Store that uses client, which stays the caller's to close, after
// the Store. It does not talk to Redis. The client must not retry by itself and
// must honour contexts: see Client.
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err := errors.Join(err, checkClient(client)); err != nil {
		return nil, err
	}
	s := &Store{
		client:  client,
		cfg:     cfg,
		where:   addresses(client),
		keep:    cfg.Keep.Milliseconds(),
		local:   quota.NewMemory(quota.MemoryConfig{Now: cfg.Now}),
		reserve: newScript("reserve"),
		settle:  newScript("settle"),
		renew:   newScript("renew"),
		balance: newScript("balance"),
		closing: make(chan struct{}),
		awake:   make(chan struct{}, 1),
	}
	s.backlog.max = cfg.Backlog
	s.backlog.signal = make(chan struct{}, 1)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if _, ok := client.(*redis.ClusterClient); ok {
		s.startLanes(clusterLanes, 2)
	} else {
		s.startLanes(1, 4)
	}
	s.wg.Go(s.deliver)
	s.wg.Go(s.watch)
	return s, nil
}

// Close tries once more to deliver the settlements that wait, ends the store's
// goroutines, and says how many settlements were lost, if any. Calls under way
// fail.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.backlog.unpark(s.cfg.Now(), true)
		for s.deliverSome(s.ctx) {
		}
		s.cancel()
	})
	s.wg.Wait()
	s.tellLost(true)
	if n, _ := s.backlog.size(); n > 0 {
		return fmt.Errorf("redisquota: %d settlements did not reach redis", n)
	}
	return nil
}

// do sends o and waits for its answer until Redis falls silent. While it is silent
// a patient call waits a little for the silence to end, any other not at all. sent
// tells whether o may have reached Redis.
func (s *Store) do(ctx context.Context, o *op, patient bool) (v verdict, sent bool, err error) {
	within, quiet := s.cfg.Timeout, s.lane(o).pulse.silence()
	if over(quiet) {
		if !patient {
			s.ops.Put(o)
			return verdict{}, false, errSilent
		}
		within, quiet = min(within, grace), nil
	}
	if err := s.send(o, within); err != nil {
		s.ops.Put(o)
		return verdict{}, false, err
	}
	r := s.wait(ctx, o, quiet)
	v, err = r.parse()
	return v, r.sent, err
}

// Reserve implements quota.Store.
func (s *Store) Reserve(ctx context.Context, r quota.Reservation) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.Check(); err != nil {
		return err
	}
	if err := r.Fits(); err != nil {
		return err
	}
	v, sent, err := s.do(ctx, s.reserveOp(&r, token()), s.cfg.Policy == Closed)
	if err == nil {
		return v.limitError(&r)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else {
		err = s.without(ctx, &r, err)
	}
	if err != nil && sent {
		s.owe(&r, 0, true, err)
	}
	return err
}

// token tells one Reserve from another of the same id.
func token() uint64 { return rand.Uint64() }

// Settle implements quota.Store. It does not end with ctx. When Redis cannot be
// asked the settlement is kept for later and Settle returns nil; if there is no
// room for it, an *quota.UnavailableError.
func (s *Store) Settle(_ context.Context, r quota.Reservation, used int64) error {
	if err := r.CheckUsed(used); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return s.unavailable(errClosed)
	}
	s.settleLocal(&r, used)
	v, sent, err := s.do(s.ctx, s.settleOp(&r, used, false), false)
	if err == nil {
		return v.limitError(&r)
	}
	if s.owe(&r, used, sent, err) {
		return nil
	}
	return s.unavailable(err)
}

// Renew implements quota.Store. When Redis cannot be asked it returns an
// *quota.UnavailableError; the next Renew makes up for it.
func (s *Store) Renew(ctx context.Context, rs []quota.Reservation) error {
	var errs []error
	var lost error
	for len(rs) > 0 {
		part := rs[:min(256, len(rs))]
		rs = rs[len(part):]
		ops := make([]*op, len(part))
		for i := range part {
			r := &part[i]
			if err := r.Check(); err != nil {
				errs = append(errs, err)
				continue
			}
			s.renewLocal(ctx, r)
			o := s.renewOp(r, token())
			if err := s.send(o, s.cfg.Timeout); err != nil {
				lost = err
				continue
			}
			ops[i] = o
		}
		for i, o := range ops {
			if o == nil {
				continue
			}
			v, err := s.wait(ctx, o, nil).parse()
			if err != nil {
				lost = err
			} else if err := v.limitError(&part[i]); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if lost != nil {
		errs = append(errs, s.unavailable(lost))
	}
	return errors.Join(errs...)
}

// Balance implements quota.Auditor. It reads all that Redis holds of the tenant,
// which takes time in proportion to the reservations of the last minutes.
func (s *Store) Balance(ctx context.Context, tenant string) (quota.Balance, error) {
	for {
		o := s.balanceOp(tenant)
		if err := s.send(o, s.cfg.Timeout); err != nil {
			return quota.Balance{}, s.unavailable(err)
		}
		r := s.wait(ctx, o, nil)
		if r.err != nil {
			return quota.Balance{}, s.unavailable(r.err)
		}
		if again, ok := r.val.(int64); !ok || again != 1 {
			return parseBalance(r.val)
		}
	}
}

func parseBalance(val any) (b quota.Balance, err error) {
	l, ok := val.([]any)
	if !ok || len(l) < 3 || len(l)%2 == 0 {
		return b, fmt.Errorf("redisquota: balance of type %T", val)
	}
	text := func(i int) string {
		t, ok := l[i].(string)
		if !ok {
			err = fmt.Errorf("redisquota: balance with a %T", l[i])
		}
		return t
	}
	number := func(i int) float64 {
		f, e := strconv.ParseFloat(text(i), 64)
		err = errors.Join(err, e)
		return f
	}
	n, _ := l[0].(int64)
	b = quota.Balance{Running: int(n), Reserved: int64(number(1)), Charged: int64(number(2))}
	for i := 3; i < len(l); i += 2 {
		name, e := url.PathUnescape(text(i))
		err = errors.Join(err, e)
		b.Windows = append(b.Windows, quota.Level{Name: name, Spent: number(i + 1)})
	}
	return b, err
}

// Stats is what a Store can tell about itself.
type Stats struct {
	Down    bool   // some part of Redis is away: the policy answers for it
	Cause   error  // why it is; nil unless Down
	Pending int    // settlements that wait for Redis
	Dropped uint64 // settlements for which there was no room, or that Redis refused for too long
}

// Stats returns the state of the moment.
func (s *Store) Stats() Stats {
	var st Stats
	if i := slices.IndexFunc(s.lanes, func(l *lane) bool { return l.down.Load() }); i >= 0 {
		st.Down, st.Cause = true, s.lanes[i].why.Load().cause
	}
	st.Pending, st.Dropped = s.backlog.size()
	return st
}

// away reports whether some part of Redis is away, or silent.
func (s *Store) away() bool {
	return slices.ContainsFunc(s.lanes, func(l *lane) bool { return l.down.Load() || l.pulse.silent() })
}

func (s *Store) unavailable(cause error) error {
	return &quota.UnavailableError{After: downFor, Err: &placedError{s.where, cause}}
}

// placedError is a cause and the addresses of the Redis that it is about, which
// time-outs do not name.
type placedError struct {
	where string
	cause error
}

func (e *placedError) Error() string { return e.where + ": " + e.cause.Error() }
func (e *placedError) Unwrap() error { return e.cause }

// addresses returns those of client, as it was made.
func addresses(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		if addr := c.Options().Addr; addr != "FailoverClient" { // go-redis' name for what Sentinels know
			return addr
		}
		return "the Sentinels' master"
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ", ")
	}
	return "redis"
}
