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
// which sending req to replicas[i] would delay it and everyone already there:
// a number, or Never, which rules the replica out. Not a number is a mistake,
// and counts as Never. cost is as long as replicas; how many there are, which,
// and in what order differs from call to call.
//
// Score must not block, modify req or replicas, write outside of cost or keep
// its arguments. It is called from many goroutines, each with a Request of its
// own. Pick allocates if it does. Package routertest checks implementations.
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
	Replica *registry.Replica // never nil
	Lease   registry.Lease    // the room claimed on Replica
	Cost    float64           // sum of the scorers' costs, in seconds
	Cached  int               // prompt tokens the replica was believed to hold
}

// scratch is what one Pick works with: the replicas that may be used and
// what is known of each, in two groups.
type scratch struct {
	fit, stale group
	cost       []float64
}

type group struct {
	replicas []*registry.Replica
	views    []registry.View
}

func (g *group) reset() {
	clear(g.replicas)
	g.replicas, g.views = g.replicas[:0], g.views[:0]
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Pick chooses the replica where the request costs least and takes a lease
// on it; when that is refused for want of room, the next best. Costs that
// differ by no more than Config.Tie are equal: then the beginning of the
// prompt decides (Request.Prefix of 1,024 tokens), by rendezvous hashing over
// the replicas' names.
//
// Replicas whose reports stopped are used only if those that do report have
// no room, or if none reports, and then by this process's own books. Pick
// does not allocate unless req.Trace is set.
func (rt *Router) Pick(req *Request, replicas []*registry.Replica) (Decision, error) {
	sc := scratches.Get().(*scratch)
	now := req.time()
	if req.Trace != nil {
		req.Trace.begin(req, replicas, now)
	}
	sc.sort(req, replicas, now)
	d, err := rt.pickFrom(&sc.fit, sc, req, now)
	if err != nil && len(sc.stale.replicas) > 0 {
		var second error
		d, second = rt.pickFrom(&sc.stale, sc, req, now)
		if second == nil || err == ErrNoReplica || second == ErrNoRoom {
			err = second // else the first says more
		}
	}
	req.views = nil
	sc.fit.reset()
	sc.stale.reset()
	scratches.Put(sc)
	return d, err
}

// sort fills the groups with the replicas that may be used.
func (sc *scratch) sort(req *Request, replicas []*registry.Replica, now time.Time) {
	g := &sc.fit
	g.views = slices.Grow(g.views[:0], len(replicas))[:len(replicas)]
	fresh := 0
	for _, r := range replicas {
		if len(req.Tried) > 0 && slices.Contains(req.Tried, r) {
			continue
		}
		v := &g.views[len(g.replicas)]
		switch {
		case !r.View(v, now):
			continue
		case v.Fresh:
			fresh++
		case v.Reported:
			sc.stale.replicas = append(sc.stale.replicas, r)
			sc.stale.views = append(sc.stale.views, *v)
			continue
		}
		g.replicas = append(g.replicas, r)
	}
	g.views = g.views[:len(g.replicas)]
	if fresh == len(g.replicas) && len(sc.stale.replicas) == 0 {
		return
	}
	if fresh == 0 {
		g.replicas = append(g.replicas, sc.stale.replicas...)
		g.views = append(g.views, sc.stale.views...)
		sc.stale.reset()
		return
	}
	sc.presume(now)
}

// presume adds to replicas without a fresh report what others have on the
// average one with: unknown is not idle.
func (sc *scratch) presume(now time.Time) {
	var sum registry.Load
	fresh := 0
	for _, r := range sc.fit.replicas {
		if others, ok := r.Others(now); ok {
			sum = sum.Add(others)
			fresh++
		}
	}
	fresh = max(fresh, 1)
	mean := registry.Load{
		Requests:   sum.Requests / fresh,
		Prefilling: sum.Prefilling / fresh,
		Prefill:    sum.Prefill / fresh,
		KV:         sum.KV / fresh,
		Context:    sum.Context / fresh,
	}
	for _, g := range [...]*group{&sc.fit, &sc.stale} {
		for i := range g.views {
			if v := &g.views[i]; !v.Fresh {
				v.Load = v.Load.Add(mean)
			}
		}
	}
}

// pickFrom scores a group and leases the best of it that has room.
func (rt *Router) pickFrom(g *group, sc *scratch, req *Request, now time.Time) (Decision, error) {
	if len(g.replicas) == 0 {
		return Decision{}, ErrNoReplica
	}
	req.views = g.views
	sc.cost = slices.Grow(sc.cost[:0], len(g.replicas))[:len(g.replicas)]
	clear(sc.cost)
	rt.score(sc.cost, req, g.replicas)
	err := ErrNoReplica
	for {
		i := best(sc.cost, rt.tie, req.Prefix(depth), g.replicas)
		if i < 0 {
			return Decision{}, err
		}
		r, claim := g.replicas[i], req.Claim(g.replicas[i])
		lease, ok := r.LeaseAt(claim, now)
		if ok {
			d := Decision{Replica: r, Lease: lease, Cost: sc.cost[i], Cached: req.CachedOn(r)}
			if req.Trace != nil {
				req.Trace.chosen(r)
			}
			return d, nil
		}
		if full := g.views[i].Full; full == 0 || claim.KV <= full {
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
