package registry

import "time"

// State is what a replica reported about itself. A State handed out by this
// package must not be modified.
type State struct {
	At              time.Time // when the answer was received
	Running         int       // sequences in the running batch
	Waiting         int       // sequences queued in the engine
	KVUsage         float64   // share of usable KV blocks held by requests, 0 to 1
	KVTokens        int       // KV capacity in tokens; 0 = unknown
	BlockSize       int       // tokens per KV block; 0 = unknown
	Steps           uint64    // engine steps since its start
	CountsSteps     bool      // it reports Steps, so that 0 is none yet; implied by any other value
	GeneratedTokens float64   // counter since the engine's start
	PromptTokens    float64   // counter, cached ones included
	CachedTokens    float64   // counter, prompt tokens found in the prefix cache
	Preemptions     uint64    // counter
	MaxLoRA         int       // adapters the engine keeps on the GPU; 0 = unknown
	Adapters        []string  // adapters with requests in flight
	Asleep          bool      // weights are offloaded: it serves nothing
	Models          []string  // names it answers to, of the base model and of adapters; nil = unknown
	MaxModelLen     int       // longest context in tokens; 0 = unknown
}

// Load is an amount of work on a replica or a pool.
type Load struct {
	Requests   int // sequences sent and not finished: a request for n choices counts n, as the engine counts it
	Prefilling int // those of Requests without a first token
	Prefill    int // uncached prompt tokens still to be computed
	KV         int // KV tokens claimed
	Context    int // tokens of context read by each decode step
}

// Add returns the sum of a and b.
func (a Load) Add(b Load) Load {
	return Load{
		Requests:   a.Requests + b.Requests,
		Prefilling: a.Prefilling + b.Prefilling,
		Prefill:    a.Prefill + b.Prefill,
		KV:         a.KV + b.KV,
		Context:    a.Context + b.Context,
	}
}

// Claim is what one request will take from a replica. Negative values count
// as zero.
type Claim struct {
	Prefill   int    // uncached prompt tokens
	KV        int    // KV tokens newly occupied: uncached prompt + expected output; shared blocks count once
	Context   int    // whole prompt + half the expected output
	Sequences int    // choices times prompts. If zero, 1
	Adapter   string // LoRA adapter, or empty
	Media     bool   // images, audio or video are fetched and decoded for it before the engine gets it, which may take long: it is no sign of work until the engine reports it
}
