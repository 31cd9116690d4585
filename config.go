package expediter

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/tokenize"
)

// Config says what a Handler serves and with which parts. Registry, Pools,
// Models, Authenticate and Quota must be set.
type Config struct {
	// Registry finds the pools by name.
	Registry Registry

	// Pools says how each pool is served. Every name must be known to
	// Registry.
	Pools []Pool

	// Models are the names that clients may ask for.
	Models []Model

	// Authenticate finds the tenant of a request from its headers. It must
	// not read the body. An error that has a RetryAfter method becomes a
	// 429, any other a 401 that is the same for all causes.
	// tenant.Keys.Authenticate is one; a team with its own login supplies
	// another. The Tenant must not be changed afterwards.
	Authenticate func(*http.Request) (*Tenant, error)

	// Quota reserves and settles tokens. quota.NewMemory for one gateway,
	// redisquota.New for several.
	Quota QuotaStore

	// Usage takes one Record per accepted request. If nil, none is kept.
	Usage Sink

	// Refused is told of each request that was turned away before it was
	// accepted, with the status sent. If nil, nobody is told.
	Refused func(status int)

	// Metrics answers GET /metrics. If nil, that path is not found.
	Metrics http.Handler

	// Limits bound what one request and all of them may take.
	Limits Limits

	// Timeouts bound every wait on a client or a replica.
	Timeouts Timeouts

	// Retry bounds second tries.
	Retry Retry

	// Scrape is how often each replica's metrics are read. If zero, 1 s.
	// Negative: never; somebody else calls registry.Replica.Report.
	Scrape time.Duration

	// Parity is how often each replica of a pool with a Tokenizer is asked
	// whether it counts the same tokens, beside when it joins and restarts.
	// If zero, 10 min. Negative: never.
	Parity time.Duration

	// Logger takes warnings and errors; never a key, prompt or completion.
	// If nil, slog.Default().
	Logger *slog.Logger
}

// Model is a name that clients may ask for: an alias, a pool's own model, or
// an adapter.
type Model struct {
	Name    string // what clients say
	Pool    string // which pool serves it
	Adapter string // LoRA adapter as the replicas name it. If empty, the pool's base model
}

// Pool says how one pool of replicas is served.
type Pool struct {
	Name string

	// Served is the base model's name as the replicas know it.
	Served string

	// Tokenizer is the model's own tokenizer and chat template. If nil,
	// prompts are measured by tokenize.ByteEstimate and every Record of the
	// pool is marked Approximate. While a replica is known to count other
	// tokens than it, Records are marked so, too.
	Tokenizer *tokenize.Model

	// MaxModelLen is the longest prompt plus output, in tokens. Without a
	// Tokenizer only what a request may put out is held to it, since the length
	// of its prompt is an estimate. If zero, the engine alone checks it.
	MaxModelLen int

	// DefaultMaxTokens is the output limit given to chat requests that name
	// none, in tokens per choice. If zero, 1024.
	DefaultMaxTokens int

	// MaxTokens caps the output limit of every request, in tokens per
	// choice. If zero, MaxModelLen alone caps it.
	MaxTokens int

	// TTFT and TPOT are the pool's objectives for tenants without their own:
	// time to first token, and time per output token after it. A request that
	// can no longer start within its TTFT is refused with a 429 instead of
	// being served too late. If zero, there is none.
	TTFT, TPOT time.Duration

	// MaxWait is the longest a request waits in line in any case. If zero,
	// 30 s.
	MaxWait time.Duration

	// Router chooses the replica. If nil, router.New with the default rule.
	Router *router.Router

	// Prefix knows what the replicas hold. If nil, a prefix.Table of what
	// was sent.
	Prefix PrefixMap

	// Admitter orders the line. If nil, an admission.Controller.
	Admitter Admitter

	// Transport talks to the replicas. If nil, one made for vLLM by
	// vllm.NewTransport. One that follows redirects or replays requests
	// breaks the count of attempts.
	Transport http.RoundTripper

	// APIKey is sent to the replicas as a bearer token. If empty, none is.
	APIKey string
}

// Limits bound what requests may take.
type Limits struct {
	Body    int64 // bytes of one request body. If zero, 8 MiB
	Bodies  int64 // bytes of all request bodies in memory together. If zero, 1 GiB
	Answer  int64 // bytes of one answer that is not streamed. If zero, 64 MiB
	Event   int   // bytes of one event of a stream. If zero, 16 MiB
	Head    int   // bytes of the head of a request. If zero, 64 KiB
	Fields  int   // header fields of a request. If zero, 100
	Choices int   // n of one request. If zero, 16
	Prompts int   // prompts of one completion request. If zero, 128
}

// Timeouts bound the waits. There is none on a stream as a whole. FirstToken and
// Answer end early when the replica is given up: it is ejected, for whatever
// reason, or was removed, and its engine stands still or its probes fail. The
// request that an ejected replica is tried with has twice the time in which an
// engine must make a step (registry.EjectConfig.Frozen) before that counts.
type Timeouts struct {
	Body       time.Duration // for the whole request body. If zero, 30 s
	FirstToken time.Duration // from dispatch to the first token of a stream, per attempt. If zero, 60 s
	Silence    time.Duration // between two events of a stream. If zero, 30 s
	Answer     time.Duration // from dispatch to the whole answer when not streamed, per attempt. If zero, 10 min
	Write      time.Duration // for the client to take what was written. If zero, 30 s
	Settle     time.Duration // for the quota store at the end. If zero, 5 s
}

// Retry bounds second tries. A request is tried again only before its first
// token. The second try of requests that failed on one replica, while no other
// is failing, is not counted by Ratio and Burst.
type Retry struct {
	Attempts int     // tries of one request, the first included; each on another replica. One that was tried before the last may be tried again while all others are out of rotation. If zero, 3
	Ratio    float64 // second tries allowed per request, over all requests. If zero, 0.1
	Burst    int     // second tries allowed on top. If zero, 64
	Kills    int     // replicas a request may have taken down before it is refused. If zero, 2. An engine that stood still under it counts. Of a lost connection the replica's next report tells, which may be waited for; of a 5xx its /health
}
