package expediter

import "time"

// Record is the account of one accepted request. Exactly one is made for
// every request whose caller was authenticated, whose body was valid and
// whose model the caller may use, whatever became of it. It holds no prompt,
// completion or key.
type Record struct {
	ID       string    // the gateway's request id, also sent upstream as X-Request-Id
	Time     time.Time // when the request's head arrived
	Endpoint string    // "chat" or "completions"
	Stream   bool

	Tenant  string // opaque tenant id
	Tier    int
	Model   string // the name the client asked for
	Served  string // the name the replica was asked for
	Pool    string
	Adapter string // LoRA adapter, or empty

	Replica    string // the last replica tried
	Generation uint64 // its generation at dispatch
	Attempts   int    // requests sent to replicas

	Input       int  // prompt tokens
	Cached      int  // prompt tokens the engine reported as cached
	Predicted   int  // prompt tokens the prefix map expected to be cached on the chosen replica
	Output      int  // generated tokens
	Estimated   bool // what is charged rests on the gateway's own counts, not the engine's
	Approximate bool // what was counted before dispatch may not be the engine's count: no tokenizer, parts that are not text, or a replica that counts otherwise

	Reserved int64 // priced tokens reserved before dispatch
	Charged  int64 // priced tokens charged at settlement

	QueueWait time.Duration // from arrival in admission to dispatch
	TTFT      time.Duration // from Time to the first content token sent, or to the whole answer if not streamed; zero if none was
	TPOT      time.Duration // mean time per output token after the first; zero below two tokens, and if not streamed
	Total     time.Duration // from Time to the end

	Objective Objective // whether TTFT and TPOT were as promised

	Status       Status
	HTTPStatus   int    // status sent to the client; 499 if it left before one was
	FinishReason string // as the engine said, for the last choice
	EndedBy      Party
	Error        string // a code or a short sentence without addresses or text of the request; empty on success
}

// Status is the final state of a request.
type Status string

// The final states of a request.
const (
	StatusOK        Status = "ok"               // complete answer delivered
	StatusRefused   Status = "refused"          // quota, admission or the engine said no; nothing was generated
	StatusCancelled Status = "client_cancelled" // the client left
	StatusTruncated Status = "truncated"        // the stream broke after the first token
	StatusFailed    Status = "failed"           // no replica could answer
	StatusStalled   Status = "client_stalled"   // the client stopped reading
	StatusPanicked  Status = "panicked"         // a programming error was contained
)

// Objective says whether a request was served as promised.
type Objective string

// What became of a promise.
const (
	NoObjective Objective = ""       // nothing was promised, the client was at fault, or the answer was not streamed
	Met         Objective = "met"    // complete, with TTFT and TPOT as promised
	Missed      Objective = "missed" // too late, too slow, refused or broken
)

// Party names who ended a request.
type Party string

// Those who can end a request.
const (
	ByEngine  Party = "engine"  // finish reason, or the engine's own error
	ByClient  Party = "client"  // hung up or stopped reading
	ByGateway Party = "gateway" // refused, timed out, drained
)

// Sink takes finished Records. Write must not block; the Record belongs to
// the sink from then on. Write is called from many goroutines at once.
type Sink interface {
	Write(*Record)
}
