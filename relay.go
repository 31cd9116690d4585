package expediter

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/expediterhq/expediter/internal/rawio"
	"github.com/expediterhq/expediter/sse"
	"github.com/expediterhq/expediter/vllm"
)

func isEventStream(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// relay brings a stream to the client, event by event. Until the first token
// nothing goes out, so that another replica can still take over; events that
// came together leave together.
func (a *attempt) relay(body io.Reader) error {
	p := pump{a: a, sc: a.g.scanner(body)}
	defer a.g.recycle(p.sc)
	switch why, err := p.run(body); why {
	case atDone:
		rawio.Yield()
		err := a.complete()
		a.drain(body)
		return err
	case atError:
		return a.streamError(p.ev)
	case atEnd:
		return a.ended(err)
	default:
		return err
	}
}

// event looks at one event, and puts into a.out what the client shall see of
// it.
func (a *attempt) event(ev sse.Event) (halt, error) {
	c := &a.chunk
	if err := c.Parse(ev.Data); err != nil {
		return failed, replicaFault("The replica sent an event that is not JSON.", err)
	}
	switch {
	case c.Done:
		if !a.finished() {
			return failed, replicaFault("The replica ended the stream without a finish reason.", nil)
		}
		return atDone, nil
	case c.Error:
		return atError, nil
	case aborted(c):
		return failed, replicaFault("The replica aborted the request.", nil)
	}
	now := time.Now()
	if a.note(c, now) {
		if a.started { // the wait for the first token is for a token, not for a sign of life
			a.dog.progress(now)
		}
		a.replica.Progress(now)
	}
	if a.usage.events > a.most() {
		return failed, replicaFault("The replica went on past the limit of the request.", nil)
	}
	a.show(ev, c)
	if !a.started && c.FirstToken() {
		a.start(now)
	}
	if !a.started && len(a.out) > maxHeld {
		return failed, replicaFault("The replica sent too much before its first token.", nil)
	}
	return none, nil
}

// note keeps the account of one chunk. It reports whether the answer has come on:
// an event that says nothing new is no progress, however many of them there are.
func (a *attempt) note(c *vllm.Chunk, now time.Time) (more bool) {
	more = c.Content || c.ToolCall || len(c.Finished) > 0
	if c.Usage.Present {
		more = more || c.Usage.Completion > a.usage.output && a.usage.output < a.most() // a token without text
		a.usage.prompt = max(a.usage.prompt, c.Usage.Prompt)
		a.usage.output = max(a.usage.output, c.Usage.Completion)
		a.usage.cached = max(a.usage.cached, c.Usage.Cached)
		a.usage.detailed = a.usage.detailed || c.Usage.Detailed
		a.usage.known = a.usage.known || c.Usage.Prompt > 0
	}
	if c.Content || c.ToolCall {
		a.usage.events++
		a.last = now
	}
	a.used.Store(a.tenant.Price.Cost(cmp.Or(a.usage.prompt, a.size.input), max(a.usage.output, a.usage.events)))
	if a.usage.output > a.claimed {
		more := max(a.usage.output-a.claimed, growBy*a.size.sequences)
		a.claimed += more
		a.lease.Grow(more)
	}
	for _, f := range c.Finished {
		a.finishes.add(f.Index, a.size.sequences)
		a.rec.FinishReason = finishReason(f.Reason)
	}
	return more
}

// most is how many tokens an answer may have.
func (a *attempt) most() int { return a.size.all(a.size.output) + maxOver }

// maxHeld is how many bytes are held back before the first token. What comes
// then is one chunk per choice that names the role.
const maxHeld = 1 << 20

// maxOver is how many tokens past its limit an answer may run: engines stop a
// step late.
const maxOver = 64

// growBy is how many output tokens a lease grows by, per sequence, when an
// answer turns out longer than was expected.
const growBy = 64

// finished reports whether every choice got a finish reason.
func (a *attempt) finished() bool { return a.finishes.n >= a.size.sequences }

// finishes counts the choices that have ended, each once.
type finishes struct {
	n    int
	seen []bool // only for more than one choice
}

func (f *finishes) add(i, of int) {
	if i < 0 || i >= of {
		return
	}
	if of > 1 && f.seen == nil {
		f.seen = make([]bool, of)
	}
	if of > 1 && f.seen[i] || of == 1 && f.n == 1 {
		return
	}
	if of > 1 {
		f.seen[i] = true
	}
	f.n++
}

// aborted reports whether the engine gave a choice up.
func aborted(c *vllm.Chunk) bool {
	for _, f := range c.Finished {
		if r := string(f.Reason); r == "abort" || r == "error" {
			return true
		}
	}
	return false
}

// start is the first token: the lease's prefill part ends, and from here on
// the request is never tried again.
func (a *attempt) start(now time.Time) {
	a.started, a.reached = true, true
	a.first, a.last = now, now
	a.lease.FirstToken()
	a.lease.Succeeded(now)
	a.forgetPrompt()
	a.dog.expect(a.g.Timeouts.Silence, errSilence)
	sse.SetHeader(a.w.Header())
}

// flush sends what is ready. An error means that the client is gone or has
// stopped reading.
func (a *attempt) flush() error {
	a.dog.leave()
	_, err := a.stream.Write(a.out)
	a.out = a.out[:0]
	if err == nil {
		err = a.stream.Flush()
	}
	a.dog.back()
	if err == nil {
		return nil
	}
	if errors.Is(err, sse.ErrStalled) {
		return errStalled
	}
	return errClientGone
}

// complete ends a good stream: everything is given back and charged first,
// so that a client that has seen the end finds its quota as it should be.
func (a *attempt) complete() error {
	if !a.started { // finished without a token: an empty answer
		a.start(time.Now())
	}
	a.rec.Status, a.rec.EndedBy = StatusOK, ByEngine
	a.settle()
	a.out = append(a.out, "data: [DONE]\n\n"...)
	return a.flush()
}

// drainTime is how long the end of a complete answer is waited for.
const drainTime = 100 * time.Millisecond

// drain reads on to the end of an answer that is complete, since a connection
// is kept for the next request only if its body was read to the end. Engines
// send that end by itself, after [DONE].
func (a *attempt) drain(body io.Reader) {
	a.dog.expect(drainTime, errSilence)
	var rest [512]byte
	for range 4 {
		if _, err := body.Read(rest[:]); err != nil {
			return // the end, or a connection that cannot be kept
		}
	}
}

// ended deals with a stream that stops without [DONE].
func (a *attempt) ended(err error) error {
	if errors.Is(err, io.EOF) && a.finished() {
		return a.complete()
	}
	if a.ctx.Err() != nil {
		return a.lost(err)
	}
	var large *sse.TooLargeError
	if errors.As(err, &large) {
		return replicaFault("The replica sent an event above the limit.", err)
	}
	if err == io.EOF {
		return replicaFault("The replica ended the stream without a finish reason.", nil)
	}
	f := replicaFault("The connection to the replica broke.", err)
	f.killed = cut(err)
	return f
}

// streamError deals with an error event. After the first token the client
// gets the engine's own event; before it, a 400 is the client's and anything
// else another replica's chance.
func (a *attempt) streamError(ev sse.Event) error {
	c := &a.chunk
	if !a.started {
		return a.engineError(cmp.Or(c.ErrorCode, http.StatusInternalServerError), ev.Data)
	}
	a.out = append(a.out, ev.Raw...)
	if err := a.flush(); err != nil {
		return err
	}
	f := replicaFault("The replica ended the stream with an error.", nil)
	f.answer = nil // the client has the engine's own words
	f.broken, f.began = cmp.Or(c.ErrorCode, http.StatusInternalServerError) >= http.StatusInternalServerError, a.began
	return f
}

// whole brings an answer that is not streamed to the client. It is read to
// its end first, so that a broken one can still be tried elsewhere.
func (a *attempt) whole(body io.Reader) error {
	a.lease.FirstToken() // the engine is done: it makes no step for what is only on its way
	data, err := io.ReadAll(io.LimitReader(body, a.g.Limits.Answer+1))
	switch {
	case err != nil && a.ctx.Err() != nil:
		return a.lost(err)
	case err != nil:
		f := replicaFault("The replica's answer broke off.", err)
		f.killed = cut(err)
		return f
	case int64(len(data)) > a.g.Limits.Answer:
		return replicaFault("The replica's answer is above the limit.", nil)
	}
	c := &a.chunk
	if err := c.Parse(data); err != nil {
		return replicaFault("The replica's answer is not JSON.", err)
	}
	if c.Error {
		return a.engineError(cmp.Or(c.ErrorCode, http.StatusInternalServerError), data)
	}
	if a.in.Stream {
		return replicaFault("The replica answered a stream request without a stream.", nil)
	}
	now := time.Now()
	a.note(c, now)
	if !a.usage.known { // about four bytes to a token
		a.usage.events = max(len(data)/4, 1)
	}
	if aborted(c) || !a.finished() {
		return replicaFault("The replica's answer is not complete.", nil)
	}
	a.first, a.last, a.reached = now, now, true
	a.lease.Succeeded(now)
	return a.deliver(data)
}

func (a *attempt) deliver(data []byte) error {
	a.borrow()
	a.out = a.appendEdited(a.out[:0], data, &a.chunk, false)
	a.rec.Status, a.rec.EndedBy = StatusOK, ByEngine
	a.settle()
	return a.writeWhole(a.out)
}

// finishReason returns the known reasons without allocating.
func finishReason(b []byte) string {
	switch string(b) {
	case "stop":
		return "stop"
	case "length":
		return "length"
	case "tool_calls":
		return "tool_calls"
	case "abort":
		return "abort"
	case "error":
		return "error"
	case "repetition":
		return "repetition"
	}
	return "other"
}
