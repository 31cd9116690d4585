package router

import (
	"math"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// depth is how much of a prompt tells conversations apart, in tokens: more
// than a system prompt that a model's users share, and no more than what a
// tenant's do.
const depth = 1024

// Never is the cost that rules a replica out.
var Never = math.Inf(1)

// Request is what is to be placed. One Request must not be picked for by two
// goroutines at once. Scorers keep neither Blocks nor Cached: their memory may be
// another request's soon after Pick.
type Request struct {
	Key       uint64              // stands for the prompt where Blocks is empty
	Blocks    []uint64            // chained hashes of the prompt's full blocks
	Adapter   string              // LoRA adapter, or empty
	Prompt    int                 // prompt tokens
	Output    int                 // tokens expected per sequence, not max_tokens
	Sequences int                 // choices times prompts. If zero, 1
	Media     bool                // the prompt has images, audio or video: see registry.Claim
	Cached    []int               // Cached[slot]: prompt tokens already held by the replica in that slot
	BlockSize int                 // tokens per KV block. If zero, cached tokens count one by one
	Tried     []*registry.Replica // not to be used for this request: they failed it, or lack what it asks for
	Now       time.Time           // If zero, time.Now()
	Value     any                 // for the caller's own scorers
	Trace     *Trace              // filled with the reasons if not nil

	views []registry.View // of the replicas being scored, while a Router scores them
	made  registry.Load   // what Load returned, outside of a Router
}

// CachedOn returns the prompt tokens that r need not compute: whole blocks,
// and never the last token, which the engine always computes.
func (q *Request) CachedOn(r *registry.Replica) int {
	slot := r.Slot()
	if slot >= len(q.Cached) {
		return 0
	}
	n := max(0, min(q.Cached[slot], q.Prompt-1))
	if b := q.BlockSize; b > 1 {
		if b&(b-1) == 0 {
			return n &^ (b - 1)
		}
		n -= n % b
	}
	return n
}

// Uncached returns the prompt tokens that r would have to compute.
func (q *Request) Uncached(r *registry.Replica) int { return max(0, q.Prompt-q.CachedOn(r)) }

// Prefix returns a hash of the first tokens of the prompt, to the end of a
// block: the same for all requests that begin with them, on every gateway. A
// shorter prompt is hashed whole, and one without Blocks has Key.
func (q *Request) Prefix(tokens int) uint64 {
	if len(q.Blocks) == 0 {
		return q.Key
	}
	n := max(tokens/max(q.BlockSize, 1), 1)
	return q.Blocks[min(n, len(q.Blocks))-1]
}

// Claim returns what the request will take from r.
func (q *Request) Claim(r *registry.Replica) registry.Claim {
	uncached, n := q.Uncached(r), max(1, q.Sequences)
	output := int(min(int64(max(0, q.Output))*int64(n), math.MaxInt/2)) // more than any replica has
	return registry.Claim{
		Prefill:   uncached,
		KV:        uncached + output,
		Context:   max(0, q.Prompt) + output/2,
		Sequences: n,
		Adapter:   q.Adapter,
		Media:     q.Media,
	}
}

// Load returns the load on replicas[i], which is r, at the time of the
// request. A Router works it out once for all scorers, and for a replica
// without a fresh report adds what others have on the average one with. It
// must not be modified, and is valid until Score returns or, outside of a
// Router, until the next call.
func (q *Request) Load(i int, r *registry.Replica) *registry.Load {
	if i < len(q.views) {
		return &q.views[i].Load
	}
	return q.estimate(r)
}

func (q *Request) estimate(r *registry.Replica) *registry.Load {
	q.made = r.Estimate(q.time())
	return &q.made
}

// view is Load with what else a scorer may ask, in v if it has to be made.
func (q *Request) view(i int, r *registry.Replica, v *registry.View) *registry.View {
	if i < len(q.views) {
		return &q.views[i]
	}
	r.View(v, q.time())
	return v
}

func (q *Request) time() time.Time {
	if q.Now.IsZero() {
		return time.Now()
	}
	return q.Now
}
