// Package registry keeps the books on model replicas: which exist, what each
// last reported, what this process has sent to it and not got back, and
// whether it may be used.
//
// A [Pool] is a set of interchangeable replicas of one model. A [Replica]
// has four kinds of books:
//
//   - a ledger of what this process has in flight there, kept exactly by
//     [Lease]: taken before dispatch, so that a burst spreads, and given back
//     on every path;
//   - the last [State] the engine reported. Unknown is not idle: a replica
//     that never reported has a nil State, and a report older than
//     [PoolConfig.StaleAfter] is not used;
//   - its health, judged by what became of requests (passive), by probes and
//     by the engine's own step counter;
//   - its speed, learned from the time between dispatch and first token.
//
// # The load now
//
// [Replica.Estimate] joins the first two. With L(t) the ledger at time t and
// S the report received at time s, the load at t is
//
//	L(t) + max(0, S - L(s))
//
// taken per quantity: what this process has there now, plus what the engine
// held at s beyond what this process knew of, which is what others sent.
// The difference is not allowed to be negative. The engine exports its
// gauges at the end of a step of up to 600 ms, so a burst sent since then is
// in L(s) but not in S; and its KV gauge counts tokens produced so far,
// where the ledger claims the output still expected. Taking either for
// freed room sends a second burst after the first.
//
// # Room
//
// A lease is granted by compare-and-swap against the replica's KV capacity
// less [PoolConfig.Headroom], because vLLM admits a request when its prompt
// fits and never reserves its output: what overflows is preempted and
// computed again. A request that finds the replica empty may use all of it.
//
// All types are safe for concurrent use. Nothing on the way of a request
// (Replicas, Estimate, Routable, Lease, FirstToken, Grow, Release) allocates
// or takes a lock shared between requests.
package registry
