package expediter

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/internal/h1"
	"github.com/expediterhq/expediter/internal/openai"
	"github.com/expediterhq/expediter/internal/rawio"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sse"
	"github.com/expediterhq/expediter/vllm"
)

// request is one request on its way through the pipeline, one method per
// step. finish gives back whatever it holds, on every path, once.
type request struct {
	h      *Handler
	g      *generation
	w      http.ResponseWriter
	r      *http.Request
	kind   openai.Kind
	id     string
	ctx    context.Context // ends when the client leaves or the gateway drains
	cancel context.CancelCauseFunc

	arrived time.Time
	tenant  *Tenant
	model   *Model
	pool    *pool
	in      *openai.Request
	shows   shows
	content *h1.Content // the last attempt's body; nil before the first
	hashed  bool        // the prompt has whole blocks whose hashes are known
	*prompt
	*answered // what borrow provides

	heldBytes   int64 // taken from the budget of bodies
	size        measure
	reservation atomic.Pointer[quota.Reservation] // nil before Reserve and after Settle
	stream      *sse.Writer
	started     bool // the head of the answer is out
	panicLast   bool // nothing but a panic can break the answer off

	stale   int  // attempts that were lost with a kept connection, at nobody's fault
	kept    kept // room set aside while in line
	claimed int  // output tokens that the lease covers
	route   router.Request
	lease   registry.Lease
	replica *registry.Replica
	tried   []*registry.Replica
	failed  *failure     // the last attempt's, if it failed
	reached bool         // a replica worked on it and did not fail: the prompt is charged
	used    atomic.Int64 // priced tokens produced so far, for the renewal of the reservation

	chunk    vllm.Chunk
	name     []byte // the model's name as the client said it, in JSON
	finishes finishes
	usage    usage
	first    time.Time // first token
	last     time.Time // last event with a token
	accepted bool
	rec      *Record
}

// usage is what an answer took, in tokens.
type usage struct {
	prompt, output, cached int
	known                  bool // from the engine
	detailed               bool // which also said what was cached
	events                 int  // events with content, the count of last resort
}

// complete takes one request all the way.
func (h *Handler) complete(w http.ResponseWriter, r *http.Request, kind openai.Kind) {
	q := &request{
		h: h, w: w, r: r, kind: kind,
		id: newID(), arrived: time.Now(),
		prompt: prompts.Get().(*prompt),
	}
	q.ctx, q.cancel = context.WithCancelCause(r.Context())
	q.rec = &Record{ID: q.id, Time: q.arrived, Endpoint: endpoint(kind)}
	h.flight.enter(q, &h.current)
	defer q.finish()
	w.Header()["X-Request-Id"] = []string{q.id}
	if err := q.run(); err != nil {
		q.fail(err)
	}
}

// run is the way of a request. A retry re-runs admission, routing and
// forwarding, never the reservation. A request is a millisecond's work: between
// its parts, rawio.Yield lets streams whose next event has come go first.
func (q *request) run() error {
	for _, step := range [...]func(*request) error{
		(*request).authenticate,
		(*request).read,
		(*request).resolve,
		(*request).measure,
		(*request).reserve,
	} {
		if err := step(q); err != nil {
			return err
		}
	}
	q.h.retries.earn()
	for {
		if err := q.dispatch(); err != nil {
			return err
		}
		rawio.Yield()
		err := q.forward()
		if err == nil {
			q.h.poison.clear(q.size.print)
		}
		if err == nil || !q.again(err) {
			return q.over(err)
		}
	}
}

// over is how a request ends that is not tried again. One that could have been, but
// that nobody waits for any more, did not fail.
func (q *request) over(err error) error {
	var f *failure
	switch {
	case q.started || q.ctx.Err() == nil || !errors.As(err, &f):
		return err
	case q.r.Context().Err() != nil:
		return errClientGone
	}
	return errShutdown()
}

func endpoint(k openai.Kind) string {
	if k == openai.Chat {
		return "chat"
	}
	return "completions"
}

// newID returns a request id: 128 random bits, in hex.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
