package expediter

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/vllm"
)

// tasks is what goes on in the background for one registry.Pool: news of room
// for its line, the reading of its replicas' metrics, and the comparison of
// token ids. It is shared by all generations of the pool.
type tasks struct {
	ctx    context.Context            // ends with the pool
	end    context.CancelFunc         // also of what the pool is asked to tell
	freed  atomic.Pointer[[]Admitter] // who hears of room that appears
	parity *parity

	watched   watched // with Handler.reload held
	stopWatch context.CancelCauseFunc
}

// watched is what the reading of metrics depends on.
type watched struct {
	transport http.RoundTripper
	apiKey    string
	interval  time.Duration
	expect    []string // names that the replicas should serve
}

func (w watched) same(o watched) bool {
	return same(w.transport, o.transport) && w.apiKey == o.apiKey && w.interval == o.interval &&
		slices.Equal(w.expect, o.expect)
}

// same compares two parts that a Config may bring, such as transports. Some
// cannot be compared: those are never the same.
func same(a, b any) bool {
	if a == nil || b == nil || reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	return reflect.ValueOf(a).Comparable() && a == b
}

// begin gives a pool that is new its background.
func (h *Handler) begin(p *pool) {
	if p.tasks != nil {
		return
	}
	t := new(tasks)
	var cancel context.CancelFunc
	t.ctx, cancel = context.WithCancel(h.ctx)
	t.parity = &parity{ctx: t.ctx}
	t.freed.Store(new([]Admitter))
	p.tasks = t
	hush := p.replicas.OnChange(func() {
		for _, a := range *t.freed.Load() {
			a.Freed()
		}
	})
	t.end = func() {
		cancel()
		hush()
	}
}

// watch reads the metrics of p's replicas as g says.
func (h *Handler) watch(g *generation, p *pool) {
	t := p.tasks
	of := watched{p.Transport, p.APIKey, g.Scrape, g.names(p)}
	if t.watched.same(of) {
		return
	}
	t.watched = of
	if t.stopWatch != nil {
		if g.Scrape < 0 {
			t.stopWatch(nil)
		} else {
			t.stopWatch(errRelieved)
		}
		t.stopWatch = nil
	}
	if g.Scrape < 0 {
		return
	}
	ctx, stop := context.WithCancelCause(t.ctx)
	t.stopWatch = stop
	w := &vllm.Watcher{
		Pool: p.replicas, Interval: g.Scrape, HealthInterval: 2 * g.Scrape,
		Transport: p.Transport, APIKey: p.APIKey, Expect: of.expect, Logger: g.Logger,
	}
	name := p.Name
	h.tasks.Go(func() {
		w.Run(ctx)
		if context.Cause(ctx) != errRelieved {
			unwatched(w.Pool)
		}
		h.closeUnused(name, w.Transport) // the last answer came after a reload did so, perhaps
	})
}

// errRelieved ends a watcher after which another one goes on.
var errRelieved = errors.New("expediter: another one watches")

// unwatched says of each member that nobody watches it any more.
func unwatched(replicas *registry.Pool) {
	for _, r := range replicas.Replicas() {
		r.Unwatched()
	}
}

// names returns what the replicas of p should serve: the base model and the
// adapters.
func (g *generation) names(p *pool) []string {
	names := []string{p.Served}
	for _, m := range g.Models {
		if m.Pool == p.Name && m.Adapter != "" && !slices.Contains(names, m.Adapter) {
			names = append(names, m.Adapter)
		}
	}
	return names
}

// idleCloser is what http.Transport offers to let idle connections go.
type idleCloser interface{ CloseIdleConnections() }

// closeUnused lets go of t's idle connections unless the pool of that name has t.
func (h *Handler) closeUnused(name string, t http.RoundTripper) {
	if p := h.current.Load().pools[name]; p == nil || !same(p.Transport, t) {
		closeIdle(t)
	}
}

// closeIdle lets go of t's idle connections, if it can.
func closeIdle(t http.RoundTripper) {
	if c, ok := t.(idleCloser); ok {
		c.CloseIdleConnections()
	}
}
