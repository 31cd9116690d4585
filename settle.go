package expediter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/expediterhq/expediter/internal/openai"
	"github.com/expediterhq/expediter/sse"
)

// settle gives back the lease and the rest of the quota, once; later calls
// do nothing. It does not depend on the client being there.
func (q *request) settle() {
	q.lease.Release()
	r := q.reservation.Swap(nil)
	if r == nil {
		return
	}
	q.guard("prefix map", q.count)
	used := int64(0)
	if q.reached {
		used = q.tenant.Price.Cost(q.rec.Input, q.rec.Output)
	}
	q.rec.Charged = used
	q.guard("quota store", func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(q.ctx), q.g.Timeouts.Settle)
		defer cancel()
		if err := q.g.Quota.Settle(ctx, *r, used); err != nil {
			q.g.Logger.Error("settling quota failed", "request", q.id, "tenant", q.tenant.ID, "reserved", r.Cost, "used", used, "error", err)
		}
	})
}

// guard runs a part that others may have written, at the end of a request: a
// panic in it is logged and harms nothing else.
func (q *request) guard(part string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			q.g.Logger.Error("panic in the "+part, "request", q.id, "panic", fmt.Sprintf("%T", p))
		}
	}()
	f()
}

// count puts the tokens of the answer into the record: the engine's figures,
// or the gateway's own where there are none.
func (q *request) count() {
	u, r := &q.usage, q.rec
	most := q.size.all(q.size.output)
	switch {
	case u.known:
		r.Input, r.Output = min(u.prompt, q.believable()), max(u.output, u.events)
		r.Cached = min(u.cached, r.Input)
	case q.reached:
		r.Output, r.Estimated = u.events, true
	}
	r.Output = min(r.Output, most)
	if q.reached && !q.first.IsZero() {
		r.TTFT = q.first.Sub(q.arrived)
		if r.Output > 1 && q.last.After(q.first) {
			r.TPOT = q.last.Sub(q.first) / time.Duration(max(r.Output/q.size.sequences, 2)-1)
		}
		q.learn()
	}
}

// believable is the most prompt tokens that a replica's usage is believed to
// be right about: a replica is not trusted with a tenant's money. An estimate
// may be off by much, above all where there are images.
func (q *request) believable() int {
	switch {
	case q.shows.multimodal:
		return 8*q.size.input + 1<<16
	case q.rec.Approximate:
		return 4*q.size.input + 1<<10
	}
	return q.size.input + q.size.input/8 + 1<<6
}

// learn tells the pool what the answer showed: how long answers are, and
// which blocks the replica really held.
func (q *request) learn() {
	if q.rec.Status == StatusOK {
		q.pool.outputs.Observe(q.tenant.ID, q.rec.Output/q.size.sequences)
	}
	if q.rec.TPOT > 0 {
		q.replica.ObserveStep(q.rec.TPOT)
	}
	if !q.usage.known || !q.hashed || q.replica.Generation() != q.rec.Generation {
		return
	}
	size := q.pool.replicas.BlockSize()
	cached := -1
	if q.usage.detailed {
		cached = q.usage.cached / size
	}
	// An answer that was cut off ended before the engine could say it.
	if q.usage.detailed || q.rec.Status == StatusOK {
		q.pool.slots.observe(q.pool.Prefix, q.replica, q.rec.Generation, q.rec.Predicted/size, cached)
	}
	q.pool.slots.fit(q.pool.Prefix, q.replica, size)
}

// fail answers a request that did not succeed, as far as it can still be
// answered, and settles its record.
func (q *request) fail(err error) {
	var public *openai.Error
	var f *failure
	if (errors.Is(err, errClientGone) || errors.Is(err, errStalled)) && errors.Is(context.Cause(q.ctx), errDraining) {
		err = errShutdown() // what was read and written was cut off from here
	}
	switch {
	case errors.Is(err, errClientGone):
		q.leftBy(q.started)
		return
	case errors.Is(err, errStalled):
		q.end(StatusStalled, ByClient, http.StatusOK, "the client stopped reading")
		q.abort()
		return
	case errors.As(err, &f):
		public = f.answer
		status := StatusFailed
		if q.started {
			status = StatusTruncated
			q.g.Logger.Warn("stream broke after its first token", "request", q.id, "replica", q.rec.Replica, "error", err)
		}
		q.end(status, ByEngine, http.StatusBadGateway, f.reason())
	case errors.As(err, &public):
		q.end(q.refusal(public), q.refuser(public), public.Status, cmp.Or(public.Code, "refused by the engine"))
	default:
		q.g.Logger.Error("request failed", "request", q.id, "error", err)
		public = errInternal()
		q.end(StatusFailed, ByGateway, public.Status, public.Code)
	}
	q.settle()
	q.answer(public)
}

// leftBy ends a request whose client is gone, or has closed its side for
// writing. Whoever still reads gets no success.
func (q *request) leftBy(started bool) {
	if started {
		q.end(StatusCancelled, ByClient, http.StatusOK, "the client left")
		q.abort()
		return
	}
	q.end(StatusCancelled, ByClient, statusClientClosed, "the client left")
	q.settle()
	_ = errLeft().Write(q.w) // seldom read by anybody
}

// answer sends an error: as the whole answer, or, after the head is out, as
// an event followed by an abnormal end that no client can take for success.
func (q *request) answer(e *openai.Error) {
	if !q.started {
		q.rec.HTTPStatus = e.Status
		// The server's own time-out runs from the request's head, and may be
		// over. Not every server has one.
		_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(q.g.Timeouts.Write))
		_ = e.Write(q.w) // nobody is left to tell if this fails
		return
	}
	q.rec.HTTPStatus = http.StatusOK // what the head said
	if e != nil {
		q.borrow()
		q.out = e.AppendEvent(q.out)
		if _, err := q.stream.Write(q.out); err == nil {
			_ = q.stream.Flush() // the abort below is all that can follow
		}
	}
	q.abort()
}

// abort ends the connection so that the client cannot take what it has for
// the whole answer.
func (q *request) abort() {
	if err := q.stream.Abort(); errors.Is(err, sse.ErrCannotAbort) {
		q.panicLast = true
	}
}

func (q *request) end(s Status, by Party, httpStatus int, reason string) {
	r := q.rec
	if r.Status != "" && s == StatusCancelled {
		return // the answer was complete already
	}
	r.Status, r.EndedBy, r.HTTPStatus, r.Error = s, by, httpStatus, reason
}

// refusal tells a request that was turned away from one whose answer broke.
func (q *request) refusal(e *openai.Error) Status {
	switch {
	case q.started:
		return StatusTruncated
	case e.Status >= 500 && q.rec.Attempts > 0:
		return StatusFailed
	}
	return StatusRefused
}

func (q *request) refuser(e *openai.Error) Party {
	if q.rec.Attempts > 0 && e.Status < 500 {
		return ByEngine
	}
	return ByGateway
}

// finish gives back whatever the request still holds and hands over its
// record. It runs last, on every path, also after a panic.
func (q *request) finish() {
	defer func() { // last of all: whoever drains may close the sink right after
		if over := q.h.flight.leave(q); over != nil {
			q.h.release(over)
		}
	}()
	if p := recover(); p != nil {
		q.contain(p)
	}
	q.cancel(nil)
	q.settle()
	if q.stream != nil {
		q.stream.Close()
	}
	q.forgetPrompt()
	r := q.rec
	r.Total = time.Since(q.arrived)
	if q.accepted {
		r.Objective = q.objective()
		q.record()
	} else {
		q.g.Refused(r.HTTPStatus)
	}
	q.forgetAnswer()
	if q.panicLast {
		panic(http.ErrAbortHandler) // the server's own way to abort; some middleware hides it
	}
}

// contain ends a request in which the program itself failed.
func (q *request) contain(p any) {
	if p == http.ErrAbortHandler { // somebody below gave the response up
		q.end(StatusCancelled, ByClient, statusClientClosed, "the response was aborted")
		q.panicLast = true
		return
	}
	q.end(StatusPanicked, ByGateway, http.StatusInternalServerError, "internal error")
	q.g.Logger.Error("panic in a request", "request", q.id, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
	q.settle()
	defer func() {
		if recover() != nil { // the ResponseWriter is what fails
			q.panicLast = true
		}
	}()
	q.answer(errInternal())
}

// objective compares the request with what its tenant, or else its pool, was
// promised.
func (q *request) objective() Objective {
	ttft, tpot := cmp.Or(q.tenant.TTFT, q.pool.TTFT), cmp.Or(q.tenant.TPOT, q.pool.TPOT)
	r := q.rec
	switch {
	case ttft == 0 && tpot == 0, r.EndedBy == ByClient, r.Status == StatusOK && !r.Stream:
		return NoObjective
	case r.Status == StatusRefused && r.HTTPStatus < 500 && r.HTTPStatus != http.StatusTooManyRequests:
		return NoObjective // the request itself was at fault
	case r.Status != StatusOK, ttft > 0 && r.TTFT > ttft, tpot > 0 && r.TPOT > tpot:
		return Missed
	}
	return Met
}

// record hands the record to the sink; a sink that panics harms nobody.
func (q *request) record() {
	if q.g.Usage == nil {
		return
	}
	if q.rec.Status == StatusOK {
		q.rec.HTTPStatus = http.StatusOK
	}
	q.guard("usage sink", func() { q.g.Usage.Write(q.rec) })
}
