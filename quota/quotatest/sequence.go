package quotatest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// testSequence makes random calls one after the other and compares every answer
// and every balance with the model, over less time than ids are remembered.
// Without a clock to move, nothing refills and no lease ends.
func testSequence(t *testing.T, b *bench) {
	for seed := range uint64(20) {
		b.tenant = unique()
		if why := b.sequence(rand.New(rand.NewPCG(seed, 1)), 300); why != "" {
			t.Fatalf("seed %d: %s", seed, why)
		}
	}
}

func (b *bench) sequence(rng *rand.Rand, calls int) string {
	m := newModel()
	var made []quota.Reservation
	for i := range calls {
		if b.Advance != nil && rng.IntN(3) == 0 {
			d := time.Duration(rng.ExpFloat64() * float64(time.Second) / 2)
			b.Advance(d)
			m.advance(m.now + int64(d))
		}
		r := b.randomReservation(rng, i)
		if len(made) > 0 && rng.IntN(3) > 0 {
			r = made[rng.IntN(len(made))]
			if rng.IntN(4) == 0 {
				r.Limit = b.randomLimit(rng)
			}
		}
		made = append(made, r)
		var why string
		switch rng.IntN(5) {
		case 0, 1:
			why = b.compareReserve(m, r)
		case 2, 3:
			used := rng.Int64N(r.Cost + 1)
			m.settle(r, used)
			if err := b.st.Settle(background, r, used); err != nil {
				why = err.Error()
			}
		default:
			r.Used = rng.Int64N(r.Cost + 1)
			m.renew(r)
			if err := b.st.Renew(background, []quota.Reservation{r}); err != nil {
				why = err.Error()
			}
		}
		if why == "" {
			why = b.compareBalance(m)
		}
		if why != "" {
			return fmt.Sprintf("call %d, id %s: %s", i, r.ID, why)
		}
	}
	return ""
}

func (b *bench) compareReserve(m *model, r quota.Reservation) string {
	want, wait := m.reserve(r)
	err := b.st.Reserve(background, r)
	var e *quota.LimitError
	if err == nil {
		e = &quota.LimitError{}
	} else if !errors.As(err, &e) {
		return err.Error()
	}
	if e.Verdict != want {
		return fmt.Sprintf("Reserve = %v (%v), want %v", e.Verdict, err, want)
	}
	if want == quota.OverQuota {
		if exact := wait * 1e9; e.After == 0 && exact < 1e18 || e.After > 0 && e.After < 24*time.Hour &&
			(float64(e.After) < exact-1e3 || float64(e.After) > exact*1.001+1e4) {
			return fmt.Sprintf("After = %v, want %v s", e.After, wait)
		}
	}
	return ""
}

func (b *bench) compareBalance(m *model) string {
	a, ok := b.st.(quota.Auditor)
	if !ok {
		return ""
	}
	got, err := a.Balance(background, b.tenant)
	if err != nil {
		return err.Error()
	}
	return differ(got, m.balance())
}

func (b *bench) randomReservation(rng *rand.Rand, i int) quota.Reservation {
	r := quota.Reservation{
		ID: fmt.Sprint("id", i), Tenant: b.tenant, Limit: b.randomLimit(rng),
		Cost: 1 + rng.Int64N(400), Lease: time.Hour,
	}
	r.Used = rng.Int64N(r.Cost + 1)
	if b.Advance != nil {
		r.Lease = leases[rng.IntN(len(leases))]
	}
	return r
}

func (b *bench) randomLimit(rng *rand.Rand) quota.Limit {
	l := quota.Limit{Concurrency: rng.IntN(8)}
	for _, n := range rng.Perm(3)[:1+rng.IntN(3)] {
		w := quota.Window{Name: string(rune('a' + n)), Burst: 200 + rng.Int64N(2000)}
		if b.Advance != nil && rng.IntN(4) > 0 {
			w.Rate = float64(rng.IntN(100_000)) / 1000
		}
		l.Windows = append(l.Windows, w)
	}
	return l
}
