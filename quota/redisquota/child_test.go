package redisquota_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

const childEnv = "EXPEDITER_QUOTA_CHILD"

// childTask is what a child process is told to do.
type childTask struct {
	Name string        // begins its ids
	Mode string        // random or hold
	Addr string        // of redis
	Skew time.Duration // of its clock
	Ops  int
	Seed uint64
}

func TestMain(m *testing.M) {
	if task := os.Getenv(childEnv); task != "" {
		runChild(task)
		return
	}
	os.Exit(m.Run())
}

// line writes one line of the ledger at once, so that it is there even if the
// process is killed right after.
func line(format string, args ...any) {
	os.Stdout.WriteString(fmt.Sprintf(format+"\n", args...))
}

func runChild(text string) {
	var task childTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		line("X %v", err)
		os.Exit(1)
	}
	client := redisquota.Client(redis.UniversalOptions{Addrs: []string{task.Addr}})
	s, err := redisquota.New(client, redisquota.Config{
		Policy: redisquota.Closed, Timeout: 300 * time.Millisecond,
		Now: func() time.Time { return time.Now().Add(task.Skew) },
	})
	if err != nil {
		line("X %v", err)
		os.Exit(1)
	}
	if task.Mode == "hold" {
		hold(task, s)
	}
	const workers = 16
	deadline := time.Now().Add(10 * time.Minute)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			c := &caller{task: task, s: s, w: w, rng: rand.New(rand.NewPCG(task.Seed, uint64(w)))}
			for c.ops < task.Ops/workers {
				c.session()
			}
			for len(c.unsure) > 0 && time.Now().Before(deadline) {
				<-time.After(10 * time.Millisecond)
				c.delivered()
			}
		})
	}
	wg.Wait()
	for s.Stats().Pending > 0 && time.Now().Before(deadline) {
		<-time.After(10 * time.Millisecond)
	}
	if err := s.Close(); err != nil {
		line("X %v", err)
	}
	line("E")
}

// caller makes requests, one after the other, and writes what it knows of each.
//
//	G id tenant cost t0 t1   granted: Reserve began and ended
//	U id used                Renew with used begins; u: it was accepted
//	s id used t              Settle begins; S id: it has reached redis
//	A id t                   given up: a second Reserve began and got no answer
//	N n                      operations made
//	X text                   what must not happen
type caller struct {
	task childTask
	s    *redisquota.Store
	w, n int
	ops  int
	rng  *rand.Rand

	unsure []string // settled, perhaps kept for later
}

func (c *caller) session() {
	c.n++
	before := c.ops
	defer func() { line("N %d", c.ops-before) }()
	ctx := context.Background()
	tn := tenants[c.pick()]
	r := quota.Reservation{
		ID: fmt.Sprint(c.task.Name, "-", c.w, "-", c.n), Tenant: tn.id, Limit: tn.limit,
		Cost: 1 + c.rng.Int64N(200), Lease: processLease,
	}
	if c.rng.IntN(50) == 0 {
		r.Cost = 1 << 40
	}
	try := ctx
	if c.rng.IntN(8) == 0 {
		var cancel context.CancelFunc
		try, cancel = context.WithTimeout(ctx, time.Duration(c.rng.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	t0 := time.Now().UnixNano()
	err := c.s.Reserve(try, r)
	c.ops++
	if err != nil {
		c.expect(try, r, err)
		return
	}
	line("G %s %s %d %d %d", r.ID, r.Tenant, r.Cost, t0, time.Now().UnixNano())
	c.granted(tn, r)
}

// granted is the life of a reservation that was made.
func (c *caller) granted(tn processTenant, r quota.Reservation) {
	ctx := context.Background()
	if c.rng.IntN(10) == 0 {
		again := time.Now().UnixNano()
		err := c.s.Reserve(ctx, r)
		c.ops++
		if v := verdictOf(err); v != quota.Duplicate && !errors.Is(err, quota.ErrUnavailable) {
			line("X second Reserve of %s = %v", r.ID, err)
		}
		if errors.Is(err, quota.ErrUnavailable) {
			// The store gives back what this Reserve may have taken, and with it the
			// first one's: nothing more is to be done with this id.
			line("A %s %d", r.ID, again)
			return
		}
	}
	for c.rng.IntN(4) == 0 && !tn.exact {
		r.Used = r.Used + c.rng.Int64N(r.Cost-r.Used+1)
		line("U %s %d", r.ID, r.Used)
		err := c.s.Renew(ctx, []quota.Reservation{r})
		c.ops++
		if err == nil {
			line("u %s %d", r.ID, r.Used)
		} else if !errors.Is(err, quota.ErrUnavailable) {
			line("X Renew of %s = %v", r.ID, err)
		}
	}
	if c.rng.IntN(40) == 0 && !tn.exact {
		return // abandoned
	}
	used := r.Used + c.rng.Int64N(r.Cost-r.Used+1)
	if tn.exact {
		used = r.Cost
	}
	line("s %s %d %d", r.ID, used, time.Now().UnixNano())
	for i := 0; i == 0 || c.rng.IntN(5) == 0; i++ {
		err := c.s.Settle(ctx, r, used)
		c.ops++
		if err != nil {
			line("X Settle of %s = %v", r.ID, err)
			return
		}
	}
	c.unsure = append(c.unsure, r.ID)
	c.delivered()
}

// delivered tells of the settlements that were accepted once none is kept for
// later any more: one that is kept dies with the process.
func (c *caller) delivered() {
	if c.s.Stats().Pending > 0 {
		return
	}
	for _, id := range c.unsure {
		line("S %s", id)
	}
	c.unsure = nil
}

func (c *caller) pick() int {
	switch p := c.rng.IntN(10); {
	case p < 5:
		return p % 2
	case p < 9:
		return 4 + p%2
	default:
		return 2 + c.rng.IntN(2)
	}
}

// expect sorts out the errors of Reserve.
func (c *caller) expect(ctx context.Context, r quota.Reservation, err error) {
	switch v := verdictOf(err); {
	case v == quota.OverQuota, v == quota.OverConcurrency:
	case v == quota.Never && r.Cost == 1<<40:
	case v == quota.OK && errors.Is(err, quota.ErrUnavailable):
		// A client backs off; without it, a breaker that is open would use up all
		// operations in no time.
		<-time.After(2 * time.Millisecond)
		c.ops-- // nothing was asked of redis
	case v == quota.OK && ctx.Err() != nil:
	default:
		line("X Reserve of %s, cost %d = %v", r.ID, r.Cost, err)
	}
}

// hold keeps 500 streams open until the process is killed.
func hold(task childTask, s *redisquota.Store) {
	ctx := context.Background()
	var rs []quota.Reservation
	for i := range holders {
		r := holderReservation(fmt.Sprint(task.Name, i))
		if err := s.Reserve(ctx, r); err != nil {
			line("X Reserve %d = %v", i, err)
			return
		}
		rs = append(rs, r)
	}
	for {
		t := time.Now().UnixNano()
		for i := range rs {
			rs[i].Used = 30
		}
		if err := s.Renew(ctx, rs); err == nil {
			line("R %d", t)
		}
		<-time.After(holderLease / 10)
	}
}
