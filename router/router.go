package router

import (
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// Scorer says what a choice would cost. Score adds to cost[i] the seconds by
// which sending req to replicas[i] would delay it and everyone already there.
// Never rules a replica out; not a number counts as Never. It must not block,
// modify replicas or keep its arguments, and is called from many goroutines.
type Scorer interface {
	Score(cost []float64, req *Request, replicas []*registry.Replica)
}

// ScorerFunc is a function used as a Scorer.
type ScorerFunc func(cost []float64, req *Request, replicas []*registry.Replica)

// Score calls f.
func (f ScorerFunc) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	f(cost, req, replicas)
}

// What Pick can fail with.
var (
	// ErrNoRoom says that some replica could serve the request, but none has
	// room for it now: wait.
	ErrNoRoom = errors.New("router: no replica has room")
	// ErrNoReplica says that no replica may be used: none is routable, all
	// were tried, or the scorers ruled out the rest.
	ErrNoReplica = errors.New("router: no replica is available")
	// ErrTooLarge says that the request fits into no replica even when it
	// is empty. It is an ErrNoReplica: waiting does not help.
	ErrTooLarge error = tooLarge{}
)

type tooLarge struct{}

func (tooLarge) Error() string        { return "router: the request exceeds the KV cache of every replica" }
func (tooLarge) Is(target error) bool { return target == ErrNoReplica }

// Config says how a Router decides.
type Config struct {
	Scorers []Scorer // their costs are added up. If nil, Default()
	// Tie is the difference in cost, in seconds, below which two replicas
	// are equally good, so that the request's key decides. If zero, 1 ms;
	// below zero, only equal costs are equal.
	Tie float64
}

// Default returns the scorers used when none are given.
func Default() []Scorer {
	return []Scorer{MarginalCost{}, AdapterLoad{}, Suspicion{}}
}

// Router picks replicas. It is safe for concurrent use. Use New.
type Router struct {
	scorers []Scorer
	tie     float64
}

// New returns a Router.
func New(cfg Config) *Router {
	rt := &Router{scorers: slices.Clone(cfg.Scorers), tie: cfg.Tie}
	if cfg.Scorers == nil {
		rt.scorers = Default()
	}
	if rt.tie == 0 {
		rt.tie = 0.001
	}
	rt.tie = max(rt.tie, 0)
	return rt
}

// Decision is the replica chosen for a request, with the room claimed there.
// The caller must release the lease.
type Decision struct {
	Replica *registry.Replica
	Lease   registry.Lease
	Cost    float64 // sum of the scorers' costs, in seconds
	Cached  int     // prompt tokens the replica was believed to hold
}

// scratch is what one Pick works with.
type scratch struct {
	fit, stale []*registry.Replica
	cost       []float64
	loads      []registry.Load
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Pick chooses the replica where the request costs least and takes a lease
// on it; when that is refused for want of room, the next best. Costs that
// differ by no more than Config.Tie are equal: then req.Key decides, by
// rendezvous hashing over the replicas' names.
//
// Replicas whose reports stopped are used only if those that do report have
// no room, or if none reports, and then by this process's own books. Pick
// does not allocate unless req.Trace is set.
func (rt *Router) Pick(req *Request, replicas []*registry.Replica) (Decision, error) {
	sc := scratches.Get().(*scratch)
	now := req.Now
	if now.IsZero() {
		now = time.Now()
	}
	if req.Trace != nil {
		req.Trace.begin(req, replicas, now)
	}
	mean := sc.sort(req, replicas, now)
	d, err := rt.pickFrom(sc.fit, sc, req, now, mean)
	if err != nil && len(sc.stale) > 0 {
		var second error
		if d, second = rt.pickFrom(sc.stale, sc, req, now, mean); second == nil || err != ErrNoRoom {
			err = second
		}
	}
	req.loads = nil
	sc.reset()
	scratches.Put(sc)
	return d, err
}

// sort fills fit and stale with the replicas that may be used and returns
// the mean load that others put on those with a fresh report.
func (sc *scratch) sort(req *Request, replicas []*registry.Replica, now time.Time) registry.Load {
	var sum registry.Load
	fresh := 0
	for _, r := range replicas {
		if !r.Routable(now) || slices.Contains(req.Tried, r) {
			continue
		}
		others, ok := r.Others(now)
		switch {
		case ok:
			fresh++
			sum = sum.Add(others)
			sc.fit = append(sc.fit, r)
		case r.State() == nil:
			sc.fit = append(sc.fit, r)
		default:
			sc.stale = append(sc.stale, r)
		}
	}
	if fresh == 0 {
		sc.fit = append(sc.fit, sc.stale...)
		sc.stale = sc.stale[:0]
		return sum
	}
	return registry.Load{
		Requests:   sum.Requests / fresh,
		Prefilling: sum.Prefilling / fresh,
		Prefill:    sum.Prefill / fresh,
		KV:         sum.KV / fresh,
		Context:    sum.Context / fresh,
	}
}

func (sc *scratch) reset() {
	clear(sc.fit)
	clear(sc.stale)
	sc.fit, sc.stale = sc.fit[:0], sc.stale[:0]
}

// pickFrom scores candidates and leases the best that has room.
func (rt *Router) pickFrom(candidates []*registry.Replica, sc *scratch, req *Request, now time.Time, mean registry.Load) (Decision, error) {
	if len(candidates) == 0 {
		return Decision{}, ErrNoReplica
	}
	sc.loads = sc.loads[:0]
	for _, r := range candidates {
		others, ok := r.Others(now)
		if !ok {
			others = mean
		}
		sc.loads = append(sc.loads, r.Load().Add(others))
	}
	req.loads = sc.loads
	sc.cost = slices.Grow(sc.cost[:0], len(candidates))[:len(candidates)]
	clear(sc.cost)
	rt.score(sc.cost, req, candidates)
	err := ErrNoReplica
	for {
		i := best(sc.cost, rt.tie, req.Key, candidates)
		if i < 0 {
			return Decision{}, err
		}
		r, claim := candidates[i], req.Claim(candidates[i])
		lease, ok := r.LeaseAt(claim, now)
		if ok {
			d := Decision{Replica: r, Lease: lease, Cost: sc.cost[i], Cached: req.CachedOn(r)}
			if req.Trace != nil {
				req.Trace.chosen(r)
			}
			return d, nil
		}
		if full, _ := r.Capacity(); full == 0 || claim.KV <= full {
			err = ErrNoRoom
		} else if err == ErrNoReplica {
			err = ErrTooLarge
		}
		if req.Trace != nil {
			req.Trace.refused(r)
		}
		sc.cost[i] = Never
	}
}

func (rt *Router) score(cost []float64, req *Request, candidates []*registry.Replica) {
	if req.Trace != nil {
		req.Trace.score(cost, rt.scorers, req, candidates)
		return
	}
	for _, s := range rt.scorers {
		s.Score(cost, req, candidates)
	}
}

// best returns the index of the least cost, or -1 if all are Never. Of those
// within tie of it, the one that draws the highest number for key wins.
func best(cost []float64, tie float64, key uint64, replicas []*registry.Replica) int {
	least := Never
	for _, c := range cost {
		if c < least {
			least = c
		}
	}
	if math.IsInf(least, 1) {
		return -1
	}
	win, high := -1, uint64(0)
	for i, c := range cost {
		if c > least+tie || c != c {
			continue
		}
		if h := Draw(key, replicas[i].Hash()); win < 0 || h > high {
			win, high = i, h
		}
	}
	return win
}

// Draw returns the number that a replica, by the hash of its name, draws for
// a key in rendezvous hashing: the highest wins. Over keys each replica wins
// equally often, and one that leaves loses only its own.
func Draw(key, replica uint64) uint64 {
	h := key ^ replica
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
