package expediter

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/expediterhq/expediter/internal/openai"
	"github.com/expediterhq/expediter/sse"
)

// authenticate turns away what can be told from the head of the request
// alone, before a byte of the body is read, and finds the tenant.
func (q *request) authenticate() error {
	if q.h.draining.Load() {
		q.w.Header().Set("Connection", "close") // the next one goes to another gateway
		return errShutdown()
	}
	if q.r.Method != http.MethodPost {
		q.w.Header().Set("Allow", http.MethodPost)
		return errMethod(http.MethodPost)
	}
	if err := checkContent(q.r.Header); err != nil {
		return err
	}
	t, err := q.g.authenticate(q.r)
	if err != nil {
		return err
	}
	q.tenant = t
	if q.r.ContentLength > q.g.Limits.Body {
		return errTooLarge(q.g.Limits.Body)
	}
	return nil
}

func (g *generation) authenticate(r *http.Request) (*Tenant, error) {
	t, err := g.Authenticate(r)
	if err == nil && t != nil && !t.Disabled {
		return t, nil
	}
	var wait interface{ RetryAfter() time.Duration }
	if errors.As(err, &wait) {
		return nil, errTooManyAttempts(wait.RetryAfter())
	}
	g.Logger.Debug("not authenticated", "error", err)
	return nil, errUnauthorized()
}

func checkContent(h http.Header) error {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || t != "application/json" {
		return errContentType()
	}
	if e := h.Get("Content-Encoding"); e != "" && e != "identity" {
		return errContentEncoding()
	}
	return nil
}

// read takes the whole body into memory, within the limits, and scans it.
// The body is read to its end before anything waits, since net/http notices
// a client that leaves only after that.
func (q *request) read() error {
	body, err := q.readBody()
	if err != nil {
		return err // the read deadline holds for what the server still reads
	}
	q.w.Header().Del("Connection")
	_ = http.NewResponseController(q.w).SetReadDeadline(time.Time{}) // not every server has one
	q.in, err = openai.Parse(body, q.kind, openai.Limits{N: q.g.Limits.Choices, Prompts: q.g.Limits.Prompts})
	if err != nil {
		return err
	}
	q.shows = shows{usage: q.in.IncludeUsage, continuous: q.in.ContinuousUsage, multimodal: q.in.Multimodal}
	if q.in.Stream {
		// What cannot be streamed must not be generated.
		q.stream, err = sse.NewWriter(q.w, sse.WriterConfig{Timeout: q.g.Timeouts.Write, Request: q.r})
		if err != nil {
			q.g.Logger.Error("cannot stream: the ResponseWriter neither flushes nor unwraps to one that does", "error", err)
			return errNoFlush()
		}
	}
	return nil
}

// firstRead is the memory taken for a body before any of it has arrived,
// whatever length the client announces.
const firstRead = 32 << 10

// readBody reads the body into q.body. Memory is taken as bytes arrive.
func (q *request) readBody() ([]byte, error) {
	most := q.g.Limits.Body + 1 // one more, to see what is too large
	if n := q.r.ContentLength; n >= 0 {
		most = min(most, n+1)
	}
	q.body = q.body[:0]
	if err := q.hold(min(most, firstRead)); err != nil {
		return nil, err
	}
	for {
		n, err := q.r.Body.Read(q.body[len(q.body):cap(q.body)])
		q.body = q.body[:len(q.body)+n]
		switch {
		case int64(len(q.body)) > q.g.Limits.Body:
			return nil, errTooLarge(q.g.Limits.Body)
		case err == io.EOF:
			return q.body, nil
		case err != nil:
			return nil, q.readError(err)
		case len(q.body) == cap(q.body):
			if err := q.hold(min(2*int64(cap(q.body)), most)); err != nil {
				return nil, err
			}
		}
	}
}

// hold makes room for size bytes in q.body, within the budget of all bodies
// and the tenant's share of it.
func (q *request) hold(size int64) error {
	size = max(size, int64(cap(q.body)))
	if more := size - q.heldBytes; more > 0 {
		if !q.h.bodies.take(q.tenant.ID, more) {
			return errBusy()
		}
		q.heldBytes = size
	}
	if int64(cap(q.body)) < size {
		grown := make([]byte, len(q.body), size)
		copy(grown, q.body)
		q.body = grown
	}
	return nil
}

func (q *request) readError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return errTooLarge(tooLarge.Limit)
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errBodyTimeout()
	}
	if q.r.Context().Err() != nil {
		return errClientGone
	}
	return errBodyBroken()
}

// resolve finds the pool, model and adapter behind the name, and from here on
// the request counts as accepted: it will have a Record.
func (q *request) resolve() error {
	m := q.g.models[q.in.Model]
	if m == nil || !q.tenant.May(m.Name) {
		return errModel(q.in.Model)
	}
	if q.in.ChatTemplate {
		return errField("chat_template", "is not accepted: the model's own template is used")
	}
	if q.in.PromptEmbeds && !slices.Contains(q.tenant.AllowFields, "prompt_embeds") {
		return errField("prompt_embeds", "is not accepted")
	}
	q.model, q.pool = m, q.g.pools[m.Pool]
	q.accepted = true
	r := q.rec
	r.Stream = q.in.Stream
	r.Tenant, r.Tier = q.tenant.ID, q.tenant.Tier
	r.Model, r.Pool, r.Adapter = m.Name, m.Pool, m.Adapter
	r.Served = cmp.Or(m.Adapter, q.pool.Served)
	return nil
}
