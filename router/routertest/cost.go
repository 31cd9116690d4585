package routertest

import (
	"math"
	"slices"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

// number says what is wrong with a cost: it is a number of seconds, or Never.
func number(i int, c float64) error {
	if math.IsNaN(c) || math.IsInf(c, -1) {
		return wrong("cost[%d] = %v, want a number of seconds or Never", i, c)
	}
	return nil
}

func numbers(b *bench) error {
	return b.each(func(f *fleet, q *router.Request) error {
		for i, c := range score(b.Scorer, q, f.replicas) {
			if err := number(i, c); err != nil {
				return err
			}
		}
		return nil
	})
}

func adds(b *bench) error {
	return b.each(func(f *fleet, q *router.Request) error {
		const large = 1e18
		cost := slices.Repeat([]float64{large}, len(f.replicas))
		b.Scorer.Score(cost, q, f.replicas)
		for i, c := range cost {
			if c < large/2 {
				return wrong("cost[%d] = %v after another Scorer's %v: it has to be added to", i, c, large)
			}
		}
		if b.Varies {
			return nil
		}
		part := score(b.Scorer, q, f.replicas)
		for i := range cost {
			cost[i] = float64(i) + 0.5
		}
		b.Scorer.Score(cost, q, f.replicas)
		for i, c := range cost {
			if base := float64(i) + 0.5; !near(c, base+part[i], base) {
				return wrong("cost[%d] = %v after another Scorer's %v, want %v more", i, c, base, part[i])
			}
		}
		return nil
	})
}

func keepsNever(b *bench) error {
	return b.each(func(f *fleet, q *router.Request) error {
		cost := slices.Repeat([]float64{router.Never}, len(f.replicas))
		b.Scorer.Score(cost, q, f.replicas)
		for i, c := range cost {
			if c < router.Never {
				return wrong("cost[%d] = %v, though another Scorer ruled the replica out", i, c)
			}
		}
		return nil
	})
}

// staysInside: what is behind the end of the slices is another's.
func staysInside(b *bench) error {
	return b.each(func(f *fleet, q *router.Request) error {
		n := len(f.replicas)
		const mark, more = -12345, 8
		cost := slices.Repeat([]float64{mark}, n+more)
		clear(cost[:n])
		replicas := append(slices.Clone(f.replicas), make([]*registry.Replica, more)...)
		b.Scorer.Score(cost[:n], q, replicas[:n])
		for i := range more {
			if cost[n+i] != mark || replicas[n+i] != nil {
				return wrong("something was written %d places behind the end", i+1)
			}
		}
		b.Scorer.Score(make([]float64, n), q, slices.Clip(f.replicas))
		return nil
	})
}

// sameAgain: what was asked before has no part in the answer.
func sameAgain(b *bench) error {
	if b.Varies {
		return errLeftOut
	}
	return b.each(func(f *fleet, q *router.Request) error {
		want := score(b.Scorer, q, f.replicas)
		if err := differ(score(b.Scorer, q, f.replicas), want); err != nil {
			return wrong("asked again: %w", err)
		}
		if err := differ(score(b.fresh().Scorer, q, f.replicas), want); err != nil {
			return wrong("asked of a new Scorer: %w", err)
		}
		return nil
	})
}

// orderOfReplicas: a cost is the replica's, not the place's.
func orderOfReplicas(b *bench) error {
	if b.Varies {
		return errLeftOut
	}
	return b.each(func(f *fleet, q *router.Request) error {
		want := score(b.Scorer, q, f.replicas)
		back := slices.Clone(f.replicas)
		slices.Reverse(back)
		got := score(b.Scorer, q, back)
		slices.Reverse(got)
		if err := differ(got, want); err != nil {
			return wrong("the same replicas in another order: %w", err)
		}
		return nil
	})
}
