package quotatest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// call is one call of a concurrent history, with its answer.
type call struct {
	kind       string // reserve, settle, renew, balance
	r          quota.Reservation
	used       int64
	start, end int64 // places in the order of all starts and ends
	verdict    quota.Verdict
	balance    quota.Balance
	err        error
}

func (c *call) String() string {
	return fmt.Sprintf("%3d-%3d %s %s cost %d used %d cap %d: %v %+v %v", c.start, c.end, c.kind, c.r.ID, c.r.Cost, c.used, c.r.Limit.Concurrency, c.verdict, c.balance, c.err)
}

// testLinearizable has a few callers work on the same few ids at once, and looks
// for an order of their calls, none before another that had already ended, in
// which the model gives the same answers.
func testLinearizable(t *testing.T, b *bench) {
	for seed := range uint64(b.Histories) {
		b.tenant = unique()
		calls := b.history(rand.New(rand.NewPCG(seed, 2)), 4, 6)
		for _, c := range calls {
			if c.err != nil {
				t.Fatalf("seed %d: %v", seed, c)
			}
		}
		s := search{calls: calls, seen: map[string]bool{}}
		if !s.from(newModel(), 0) {
			var all strings.Builder
			for _, c := range calls {
				fmt.Fprintln(&all, c)
			}
			t.Fatalf("seed %d: no order of these calls explains their answers:\n%s", seed, &all)
		}
	}
}

// history has n callers make k random calls each, all at once.
func (b *bench) history(rng *rand.Rand, n, k int) []*call {
	var calls []*call
	var clock atomic.Int64
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for range n {
		mine := make([]*call, k)
		for i := range mine {
			mine[i] = b.randomCall(rng)
		}
		calls = append(calls, mine...)
		wg.Go(func() {
			<-gate
			for _, c := range mine {
				c.start = clock.Add(1)
				b.make(c)
				c.end = clock.Add(1)
			}
		})
	}
	close(gate)
	wg.Wait()
	return calls
}

func (b *bench) randomCall(rng *rand.Rand) *call {
	l := limit(0, 10, rng.IntN(4))
	if rng.IntN(2) == 0 {
		l.Windows = append(l.Windows, quota.Window{Name: "second", Burst: 8})
	}
	c := &call{r: b.res(fmt.Sprint("id", rng.IntN(6)), 1+rng.Int64N(9), l), used: rng.Int64N(9)}
	switch p := rng.IntN(10); {
	case p < 5:
		c.kind = "reserve"
	case p < 8:
		c.kind = "settle"
	case p < 9:
		c.kind = "renew"
	default:
		c.kind = "reserve"
		if _, ok := b.st.(quota.Auditor); ok {
			c.kind = "balance"
		}
	}
	c.r.Lease = 10 * time.Hour
	return c
}

// make makes the call and notes the answer.
func (b *bench) make(c *call) {
	switch c.kind {
	case "reserve":
		err := b.st.Reserve(background, c.r)
		var e *quota.LimitError
		if errors.As(err, &e) {
			c.verdict = e.Verdict
		} else {
			c.err = err
		}
	case "settle":
		c.err = b.st.Settle(background, c.r, c.used)
	case "renew":
		c.err = b.st.Renew(background, []quota.Reservation{c.r})
	case "balance":
		c.balance, c.err = b.st.(quota.Auditor).Balance(background, b.tenant)
	}
}

// search looks for an order of calls, depth first.
type search struct {
	calls []*call
	seen  map[string]bool // states that lead nowhere
}

// from reports whether the calls outside the set done can follow m.
func (s *search) from(m *model, done uint64) bool {
	if done == 1<<len(s.calls)-1 {
		return true
	}
	key := fmt.Sprint(done, m.key())
	if s.seen[key] {
		return false
	}
	first := int64(1<<62 - 1) // no call that began after this one ended can be next
	for i, c := range s.calls {
		if done&(1<<i) == 0 {
			first = min(first, c.end)
		}
	}
	for i, c := range s.calls {
		if done&(1<<i) != 0 || c.start > first {
			continue
		}
		next := m.clone()
		if next.explains(c) && s.from(next, done|1<<i) {
			return true
		}
	}
	s.seen[key] = true
	return false
}

// explains makes the call on the model and reports whether the answer is the
// same.
func (m *model) explains(c *call) bool {
	switch c.kind {
	case "reserve":
		v, _ := m.reserve(c.r)
		return v == c.verdict
	case "settle":
		m.settle(c.r, c.used)
	case "renew":
		m.renew(c.r)
	case "balance":
		return differ(c.balance, m.balance()) == ""
	}
	return true
}
