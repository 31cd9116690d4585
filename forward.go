package expediter

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/expediterhq/expediter/internal/h1"
	"github.com/expediterhq/expediter/internal/openai"
	"github.com/expediterhq/expediter/vllm"
)

// failure is an attempt that gave the client nothing yet.
type failure struct {
	answer  *openai.Error // what the client gets if nobody else can answer
	cause   error         // for the log; may be nil
	fault   bool          // the replica's fault: it counts against it, and another may do better
	killed  bool          // the connection was lost with the request on it
	broken  bool          // the engine said that something inside of it failed
	still   bool          // the replica was given up with the request on it, and had been well before
	began   time.Time     // the attempt, if broken
	stale   bool          // a kept connection turned out to be closed: nobody's fault
	unheard bool          // an HTTP/2 server has said that it will not look at the request
	ours    bool          // the gateway itself could not connect: the try counts, but not against the replica
	missing bool          // the replica is well but lacks what was asked for
}

func (f *failure) Error() string {
	if f.cause != nil {
		return "expediter: " + f.reason() + " " + plain(f.cause)
	}
	return "expediter: " + f.reason()
}

// reason is fit for a record: it has no address and no text of the request.
func (f *failure) reason() string {
	if f.answer == nil {
		return "The replica ended the stream with an error."
	}
	return f.answer.Message
}

func (f *failure) Unwrap() error { return f.cause }

func replicaFault(message string, cause error) *failure {
	return &failure{answer: errUpstream(http.StatusBadGateway, message), cause: cause, fault: true}
}

// attempt is one try on one replica.
type attempt struct {
	*request
	ctx    context.Context
	cancel context.CancelCauseFunc
	dog    *watchdog
	began  time.Time

	connected bool // the request had a connection to go out on
	reused    bool // which had been kept from an earlier request
}

// forward sends the request to the chosen replica and brings the answer to
// the client. It returns a *failure if the client has seen nothing of it.
func (q *request) forward() (err error) {
	q.usage, q.finishes = usage{}, finishes{}
	q.forgetAnswer()
	a := attempt{request: q, began: time.Now()}
	a.ctx, a.cancel = context.WithCancelCause(q.ctx)
	a.dog = watch(a.cancel, q.givenUp())
	defer a.dog.stop()
	defer a.cancel(nil)
	defer func() { err = a.own(err) }()
	limit := q.g.Timeouts.FirstToken
	if !q.in.Stream {
		limit = q.g.Timeouts.Answer
	}
	a.dog.expect(limit, errNoFirstToken)
	resp, err := q.pool.Transport.RoundTrip(a.outgoing())
	if err != nil {
		return a.lost(err)
	}
	// The head, and the request that it answers, are not kept for as long as
	// the body may take.
	status, events, body := resp.StatusCode, isEventStream(resp.Header), resp.Body
	defer body.Close()
	switch {
	case status < 200: // a switch of protocols: its body is the bare connection
		return replicaFault("The replica answered with a status that is none.", nil)
	case status != http.StatusOK:
		return a.refused(status, body)
	case q.in.Stream && events:
		return a.relay(body)
	}
	return a.whole(body)
}

// outgoing builds the request for the replica: a constant path, its own
// framing, and only headers that are named here. It cannot be replayed by a
// transport, since it has no GetBody.
func (a *attempt) outgoing() *http.Request {
	u := a.replica.Target()
	path := "/v1/chat/completions"
	if a.kind == openai.Completion {
		path = "/v1/completions"
	}
	header := make(http.Header, 8)
	header["Content-Type"] = []string{"application/json"}
	header["Accept"] = []string{"application/json"}
	if a.in.Stream {
		header["Accept"] = []string{"text/event-stream"}
	}
	header["User-Agent"] = []string{"expediter"}
	header["X-Request-Id"] = []string{a.id}
	if a.pool.APIKey != "" {
		header["Authorization"] = []string{"Bearer " + a.pool.APIKey}
	}
	for _, name := range [...]string{"Traceparent", "Tracestate"} {
		if v := a.r.Header[name]; len(v) == 1 {
			header[name] = v
		}
	}
	a.content = h1.Body(a.size.body)
	out := &http.Request{
		Method: http.MethodPost,
		URL:    &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path + path},
		Host:   u.Host,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        header,
		Body:          a.content,
		ContentLength: int64(len(a.size.body)),
	}
	return out.WithContext(httptrace.WithClientTrace(a.ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { a.connected, a.reused = true, c.Reused },
	}))
}

// refused deals with an answer that is not 200.
func (a *attempt) refused(status int, answer io.Reader) error {
	const most = 64 << 10
	body, err := io.ReadAll(io.LimitReader(answer, most))
	if err != nil && a.ctx.Err() != nil {
		return a.lost(err)
	}
	return a.engineError(status, body)
}

// engineError turns an error of the engine's into what the client gets: its
// own mistake comes back to it, anything else is the replica's fault.
func (a *attempt) engineError(status int, body []byte) error {
	e := vllm.DecodeError(status, body)
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		a.lease.Succeeded(time.Now())
		return &openai.Error{Status: status, Param: e.Param, Message: cmp.Or(e.Message, "The engine refused the request."), Final: true, Code: a.engineCode(e)}
	case http.StatusNotFound:
		// The replica lacks the model or the adapter: another may have it,
		// and this one serves everybody else well.
		f := replicaFault("The replica does not serve this model.", e)
		f.missing = true
		return f
	case http.StatusNotImplemented:
		return &openai.Error{Status: status, Message: e.Message, Final: true}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		f := replicaFault("The replica is overloaded.", e)
		f.answer.Status, f.answer.After = http.StatusServiceUnavailable, time.Second
		f.broken, f.began = status == http.StatusServiceUnavailable, a.began // a proxy says so too of a server that is gone
		return f
	}
	f := replicaFault("The replica failed.", e)
	f.broken, f.began = status >= http.StatusInternalServerError, a.began
	return f
}

// engineCode is the code for an engine's refusal, where it has one of its own.
func (a *attempt) engineCode(e *vllm.Error) string {
	if e.Param == "input_tokens" || e.Param == "input_text" || strings.Contains(e.Message, "context") {
		return openai.CodeContextLength
	}
	return ""
}

// again reports whether the request may be tried on another replica, after
// giving back what the failed attempt held.
func (q *request) again(err error) bool {
	var f *failure
	failed, now := errors.As(err, &f) && f.fault, time.Now()
	if failed && !f.stale && !f.missing && !f.ours {
		q.replica.Failed(now) // before Release: else another may be let through after a trial that has failed
	}
	q.lease.Release()
	if !failed {
		return false
	}
	who := one(q.rec.Replica, q.rec.Generation)
	if f.stale && q.chance(f, who, now) {
		q.stale++
		if s := q.replica.State(); !f.unheard && s != nil && now.Sub(s.At) < 2*q.reports() {
			q.h.poison.lost(q.size.print, loss{q.replica, q.rec.Generation, now, now})
		}
		q.g.Logger.Debug("kept connection was closed", "request", q.id, "replica", q.replica.Name(), "attempt", q.rec.Attempts)
		return q.ctx.Err() == nil
	}
	switch {
	case f.missing:
		q.pool.lacks.note(q.replica, q.rec.Generation, q.model.Adapter, now)
	case f.stale && !f.ours: // and not by chance
		q.replica.Failed(now)
	}
	q.failed = f
	switch {
	case f.stale:
		q.h.poison.add(q.size.print, who, now)
	case f.killed:
		q.blame(now)
	case f.broken:
		q.examine(f)
	case f.still:
		q.h.poison.add(q.size.print, who, now)
	}
	if q.started {
		return false
	}
	q.tried = append(q.tried, q.replica)
	q.g.Logger.Warn("attempt failed", "request", q.id, "replica", q.replica.Name(), "attempt", q.rec.Attempts, "error", err)
	return q.rec.Attempts-q.stale < q.g.Retry.Attempts && q.ctx.Err() == nil && (q.alone(now) || q.h.retries.spend())
}

// alone reports whether the first replica tried has failed the request while
// no other is failing: however many requests were lost with it, each may be
// tried once more without using up what is meant for an outage of the fleet.
func (q *request) alone(now time.Time) bool {
	if len(q.tried) > 1 {
		return false
	}
	well := 0
	for _, r := range q.pool.replicas.Replicas() {
		if r == q.replica || !r.Routable(now) {
			continue
		}
		if n, _ := r.Failures(); n > 0 {
			return false
		}
		well++
	}
	return well > 0
}
