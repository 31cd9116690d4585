package router

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/expediterhq/expediter/registry"
)

// last is added to the cost of replicas that a published rule does not
// consider: they are used only when those it does have no room.
const last = 1e12

// RoundRobin takes replicas in turn. Use a pointer: it counts.
type RoundRobin struct{ next atomic.Uint64 }

// Score adds each replica's distance from the one whose turn it is.
func (s *RoundRobin) Score(cost []float64, _ *Request, replicas []*registry.Replica) {
	n := len(replicas)
	if n == 0 {
		return
	}
	start := int((s.next.Add(1) - 1) % uint64(n))
	for i := range replicas {
		cost[i] += float64((i - start + n) % n)
	}
}

// LeastRequest takes the replica with the fewest requests in flight.
type LeastRequest struct{}

// Score adds each replica's requests.
func (LeastRequest) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	for i, r := range replicas {
		cost[i] += float64(req.Load(i, r).Requests)
	}
}

// PowerOfTwo draws two replicas at random and takes the one with fewer
// requests in flight (Mitzenmacher, "The power of two choices in randomized
// load balancing", 2001). Use a pointer.
type PowerOfTwo struct {
	Seed  uint64 // the same seed gives the same draws
	draws atomic.Uint64
}

// Score adds the requests of the two drawn, and so much to all others that
// they are used only if neither has room.
func (s *PowerOfTwo) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	n := uint64(len(replicas))
	if n == 0 {
		return
	}
	h := Draw(s.Seed+s.draws.Add(1)*0x9e3779b97f4a7c15, 0)
	a, b := int(h%n), 0
	if n > 1 {
		b = int((uint64(a) + 1 + h>>32%(n-1)) % n)
	}
	for i, r := range replicas {
		if i != a && i != b {
			cost[i] += last
		}
		cost[i] += float64(req.Load(i, r).Requests)
	}
}

// Blend is the weighted sum that llm-d used by default: the share of the
// prompt held, the queue and the KV cache's use, each scaled so that the best
// replica has 1 and the worst 0. Queue and KV use are what replicas reported,
// however long ago. The weights 3, 2, 2 are those of llm-d's 73-capacity
// benchmark.
type Blend struct {
	Prefix, Queue, KV float64 // weights. If zero, that part does not count
}

// Score adds the sum of the weights less the weighted sum, so that 0 is the
// best possible.
func (s Blend) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	s.add(cost, replicas, s.Prefix, func(r *registry.Replica) float64 { return float64(req.Uncached(r)) })
	s.add(cost, replicas, s.Queue, func(r *registry.Replica) float64 {
		if st := r.State(); st != nil {
			return float64(st.Waiting)
		}
		return 0
	})
	s.add(cost, replicas, s.KV, func(r *registry.Replica) float64 {
		if st := r.State(); st != nil {
			return st.KVUsage
		}
		return 0
	})
}

func (Blend) add(cost []float64, replicas []*registry.Replica, weight float64, value func(*registry.Replica) float64) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, r := range replicas {
		v := value(r)
		lo, hi = min(lo, v), max(hi, v)
	}
	if hi <= lo {
		return
	}
	for i, r := range replicas {
		cost[i] += weight * (value(r) - lo) / (hi - lo)
	}
}

// Sticky is llm-d's sticky-until-saturated rule (llm-d blog, 17 August 2026):
// among replicas that hold most of the prompt, or among all if none does,
// take the one with the least prefill pending, this request's included. When
// the best holder has more pending, beyond the least loaded replica, than it
// prefills in Wait, all are considered.
//
// The published rule knows the speed of prefill as a constant measured on the
// hardware, 16,000 tokens/s for Qwen3-32B on two H100; here it is what the
// pool has learned of the holder, so that the rule fits other hardware.
type Sticky struct {
	Affinity    float64 // share of the prompt to be held. If zero, 0.8
	Peak        float64 // tokens/s of prefill. If zero, the holder's PrefillRate
	Wait        float64 // seconds. If zero, 14
	DecodeBound bool    // take the fewest requests instead of the least prefill
}

// Score adds each replica's pending tokens, or requests, and so much to those
// not considered that they are used only if no other has room.
func (s Sticky) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	orElse(&s.Affinity, 0.8)
	orElse(&s.Wait, 14)
	warm := func(r *registry.Replica) bool {
		return float64(req.CachedOn(r)) >= s.Affinity*float64(req.Prompt)
	}
	var best *registry.Replica // among those that hold the prompt
	least, leastWarm := math.Inf(1), math.Inf(1)
	for i, r := range replicas {
		pending := float64(req.Load(i, r).Prefill)
		least = min(least, pending)
		if warm(r) && pending < leastWarm {
			best, leastWarm = r, pending
		}
	}
	all := best == nil || leastWarm-least > s.peak(best)*s.Wait
	for i, r := range replicas {
		if !all && !warm(r) {
			cost[i] += last
		}
		if l := req.Load(i, r); s.DecodeBound {
			cost[i] += float64(l.Requests)
		} else {
			cost[i] += float64(l.Prefill + req.Uncached(r))
		}
	}
}

func (s Sticky) peak(r *registry.Replica) float64 {
	if s.Peak > 0 {
		return s.Peak
	}
	return r.PrefillRate()
}

// LMetric is the product rule of arXiv 2603.15202: the prefill tokens the
// replica would have pending, times its batch size, both with this request.
// It has no parameters.
type LMetric struct {
	Own bool // count only this request's tokens: the paper's abstract leaves open which is meant
}

// Score adds the product.
func (s LMetric) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	for i, r := range replicas {
		l := req.Load(i, r)
		tokens := req.Uncached(r)
		if !s.Own {
			tokens += l.Prefill
		}
		cost[i] += float64(tokens) * float64(l.Requests+1)
	}
}

// BoundedHash is consistent hashing with bounded loads (Mirrokni, Thorup and
// Zadimoghaddam, 2016) on the start of the prompt, as KubeAI routes by
// prefix: each key has an order of preference over the replicas, and the
// first that has at most Bound times the mean number of requests takes it.
// The order is by rendezvous hashing, which needs no ring and spreads more
// evenly than one.
//
// The key is the hash of the first Depth tokens of the prompt. KubeAI takes
// the first 100 characters of the first user message, which are the first
// that differ between conversations; a prompt of tokens has no messages, so
// Depth has to reach past the system prompt that all share, and no farther
// than what those share that should meet on one replica. See Request.Prefix.
type BoundedHash struct {
	Bound float64 // times the mean. If zero, 1.25
	Depth int     // tokens. If zero, 1024
}

// Score adds the replica's place in the key's order, from 0 to 1, and 1 more
// if it is above the bound.
func (s BoundedHash) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	orElse(&s.Bound, 1.25)
	key := req.Prefix(cmp.Or(s.Depth, depth))
	total := 1
	for i, r := range replicas {
		total += req.Load(i, r).Requests
	}
	bound := math.Ceil(s.Bound * float64(total) / float64(len(replicas)))
	for i, r := range replicas {
		cost[i] += 1 - math.Ldexp(float64(Draw(key, r.Hash())>>11), -53)
		if float64(req.Load(i, r).Requests+1) > bound {
			cost[i]++
		}
	}
}

func orElse(v *float64, d float64) {
	if *v == 0 {
		*v = d
	}
}

// Names returns the names that ByName knows.
func Names() []string {
	return []string{"roundrobin", "leastrequest", "p2c", "blend", "sticky", "lmetric", "chwbl", "marginal"}
}

// ByName returns a Router with the rule of that name, with its published
// parameters: roundrobin, leastrequest, p2c, blend (3/2/2), sticky, lmetric,
// chwbl or marginal, which is the default. The seed is for rules that draw
// lots.
func ByName(name string, seed uint64) (*Router, error) {
	var s Scorer
	switch name {
	case "roundrobin":
		s = new(RoundRobin)
	case "leastrequest":
		s = LeastRequest{}
	case "p2c":
		s = &PowerOfTwo{Seed: seed}
	case "blend":
		s = Blend{Prefix: 3, Queue: 2, KV: 2}
	case "sticky":
		s = Sticky{}
	case "lmetric":
		s = LMetric{}
	case "chwbl":
		s = BoundedHash{}
	case "marginal":
		return New(Config{}), nil
	default:
		return nil, fmt.Errorf("router: rule %q: expected one of %s", name, strings.Join(slices.Sorted(slices.Values(Names())), ", "))
	}
	return New(Config{Scorers: []Scorer{s}, Tie: -1}), nil
}
