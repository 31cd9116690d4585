package expediter

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/internal/openai"
	"github.com/expediterhq/expediter/registry"
)

// Handler is the whole pipeline as one http.Handler. It serves
//
//	POST /v1/chat/completions, /v1/completions
//	GET  /v1/models, /v1/models/{name}, /healthz, /readyz, /metrics
//
// A Handler is safe for concurrent use. It may stand under other middleware
// as long as what that hands on can flush, directly or through Unwrap.
type Handler struct {
	current  atomic.Pointer[generation]
	draining atomic.Bool

	bodies  byteBudget
	retries *retryBudget
	poison  *poison
	engines *engines
	flight  flight

	reload sync.Mutex // one reload, or Close, at a time
	ctx    context.Context
	stop   context.CancelFunc
	tasks  sync.WaitGroup // what runs in the background
	closed bool
}

// New returns a Handler that serves c, or all that is wrong with c, joined;
// each mistake is a *ConfigError. The Handler reads the replicas' metrics and
// renews the quota of long streams in the background until Close.
func New(c Config) (*Handler, error) {
	g, err := newGeneration(c, nil)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		bodies:  byteBudget{limit: g.Limits.Bodies},
		retries: newRetryBudget(g.Retry),
		poison:  newPoison(),
		engines: newEngines(),
	}
	h.flight.init()
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.adopt(g, nil)
	h.tasks.Go(h.renew)
	return h, nil
}

// Reload makes the Handler serve c from the next request on; requests under
// way keep the Config they began with: in line or running, a pool that c leaves
// out serves those that it has to their end. On an error nothing changes. Pools
// that keep their name and their registry.Pool keep their lines, prefix map
// and what was learned; so does one that was left out and comes back while it
// serves. Limits.Bodies, Retry.Ratio and Retry.Burst stay as New set them.
func (h *Handler) Reload(c Config) error {
	h.reload.Lock()
	defer h.reload.Unlock()
	if h.closed {
		return errClosed
	}
	before := h.flight.hold()
	defer h.let(before)
	g, err := newGeneration(c, before)
	if err != nil {
		return err
	}
	h.adopt(g, h.current.Load())
	return nil
}

// adopt starts what serves the pools of g, swaps g in, and ends what nobody
// needs any more of old, which is nil at first.
func (h *Handler) adopt(g, old *generation) {
	for _, p := range g.pools {
		h.begin(p)
	}
	h.join(g)
	for _, p := range g.pools {
		h.compare(g, p)
		h.watch(g, p)
	}
	h.flight.swap(&h.current, g)
	if old != nil {
		h.release(old)
	}
}

// drainLast bounds the wait for requests that have been told to end, drainPolite
// that for clients to take the error event, or to send what they have begun.
const (
	drainLast   = 10 * time.Second
	drainPolite = time.Second
)

// Drain refuses new requests, answers those in line with a 503, and waits for
// the running ones until ctx ends; then it ends them with an error event, which
// clients have a second to take. The error is ctx's if any had to be ended.
func (h *Handler) Drain(ctx context.Context) error {
	h.draining.Store(true)
	for _, p := range h.flight.pools() {
		if p.own != nil {
			p.own.Close()
		}
	}
	if h.flight.wait(ctx) {
		return nil
	}
	h.flight.cancelAll(errDraining)
	last, cancel := context.WithTimeout(context.Background(), drainLast)
	defer cancel()
	for wait := drainPolite; last.Err() == nil; wait = drainPolite / 10 { // some may just be about to write
		polite, cancel := context.WithTimeout(last, wait)
		empty := h.flight.wait(polite)
		cancel()
		if empty {
			break
		}
		h.flight.cutAll()
	}
	return context.Cause(ctx)
}

// Close ends every request, everything that runs in the background, and the
// idle connections to replicas. It does not close the parts that the Config
// brought. Close may be called more than once.
func (h *Handler) Close() error {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = h.Drain(gone)
	h.reload.Lock()
	defer h.reload.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	h.stop()
	h.tasks.Wait()
	for _, p := range h.flight.pools() {
		p.tasks.end()
		closeIdle(p.Transport)
	}
	return nil
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// An answer that does not need the body must not wait for it: the
		// server reads what is left of it unless the connection closes. Not
		// every server has deadlines.
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.current.Load().Timeouts.Body))
	}
	h.route(w, r)
	linger(w, r)
}

// route answers one request by its path.
func (h *Handler) route(w http.ResponseWriter, r *http.Request) {
	if l := &h.current.Load().Limits; !headFits(r, l) {
		h.refuse(w, errHeadTooLarge(l))
		return
	}
	path := r.URL.Path
	if r.URL.RawPath != "" && !strings.HasPrefix(r.URL.RawPath, modelsPrefix) { // a rule for paths in front of the gateway would not know it
		h.refuse(w, errNoRoute())
		return
	}
	switch path {
	case "/v1/chat/completions":
		h.complete(w, r, openai.Chat)
	case "/v1/completions":
		h.complete(w, r, openai.Completion)
	case "/v1/models":
		h.models(w, r)
	case "/healthz":
		h.health(w, r)
	case "/readyz":
		h.ready(w, r)
	case "/metrics":
		h.metrics(w, r)
	default:
		if name, ok := strings.CutPrefix(path, modelsPrefix); ok && name != "" {
			h.oneModel(w, r, name)
			return
		}
		h.refuse(w, errNoRoute())
	}
}

// renew keeps the quota leases of long requests alive until Close.
func (h *Handler) renew() {
	const every = reservationLease / 4
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-t.C:
		}
		g := h.current.Load()
		ctx, cancel := context.WithTimeout(h.ctx, every)
		if rs := h.flight.reservations(time.Now().Add(-every)); len(rs) > 0 {
			if err := g.Quota.Renew(ctx, rs); err != nil && h.ctx.Err() == nil {
				g.Logger.Warn("renewing quota leases failed", "requests", len(rs), "error", err)
			}
		}
		cancel()
	}
}

// Pools returns the pools being served, for metrics.
func (h *Handler) Pools() []*registry.Pool {
	g := h.current.Load()
	pools := make([]*registry.Pool, 0, len(g.Pools))
	for _, pc := range g.Pools {
		pools = append(pools, g.pools[pc.Name].replicas)
	}
	return pools
}

// Lines returns the state of each pool's line by the pool's name, for
// metrics; pools whose Admitter the Config brought are left out.
func (h *Handler) Lines() map[string]admission.Stats {
	g := h.current.Load()
	lines := make(map[string]admission.Stats, len(g.pools))
	for name, p := range g.pools {
		if p.own != nil {
			lines[name] = p.own.Stats()
		}
	}
	return lines
}

// InFlight returns the number of requests under way.
func (h *Handler) InFlight() int { return h.flight.len() }
