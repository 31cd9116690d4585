package expediter

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// flight holds the requests under way, and the generations that serve them.
type flight struct {
	mu      sync.Mutex
	on      map[*request]struct{}
	serving []*generation // the current one, and those before it with requests
	changed chan struct{} // closed when the last one leaves, while somebody waits
}

func (f *flight) init() { f.on = make(map[*request]struct{}) }

// enter gives q the current generation, which lasts until q leaves.
func (f *flight) enter(q *request, current *atomic.Pointer[generation]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q.g = current.Load()
	q.g.requests++
	f.on[q] = struct{}{}
}

// leave returns q's generation if that ends with q, or else nil.
func (f *flight) leave(q *request) (over *generation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.on, q)
	if len(f.on) == 0 && f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
	if q.g.requests--; f.overLocked(q.g) {
		over = q.g
	}
	return over
}

// swap makes next, which serves already, the generation of all requests to
// come. One before it that has no requests ends.
func (f *flight) swap(current *atomic.Pointer[generation], next *generation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := current.Swap(next); old != nil {
		old.replaced = true
		f.overLocked(old)
	}
}

// hold returns the generations that serve, the current one last. None of them
// ends before let.
func (f *flight) hold() []*generation {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.serving {
		g.requests++
	}
	return slices.Clone(f.serving)
}

// let undoes hold for one generation, and reports whether that ends with it.
func (f *flight) let(g *generation) (over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g.requests--
	return f.overLocked(g)
}

// overLocked reports whether nobody needs g any more, and strikes it off then.
func (f *flight) overLocked(g *generation) bool {
	if !g.replaced || g.requests > 0 {
		return false
	}
	f.serving = slices.DeleteFunc(f.serving, func(o *generation) bool { return o == g })
	return true
}

// wait returns true once nobody is under way, false when ctx ends first.
func (f *flight) wait(ctx context.Context) bool {
	for {
		f.mu.Lock()
		if len(f.on) == 0 {
			f.mu.Unlock()
			return true
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		empty := f.changed
		f.mu.Unlock()
		select {
		case <-empty:
		case <-ctx.Done():
			return false
		}
	}
}

func (f *flight) cancelAll(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for q := range f.on {
		q.cancel(cause)
	}
}

// cutAll ends what reads from clients and writes to them.
func (f *flight) cutAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for q := range f.on { // none of them leaves meanwhile
		c, past := http.NewResponseController(q.w), time.Unix(1, 0)
		_ = c.SetReadDeadline(past) // not every server has deadlines
		_ = c.SetWriteDeadline(past)
	}
}

// reservations returns those that were made before t and are not settled.
func (f *flight) reservations(t time.Time) []quota.Reservation {
	f.mu.Lock()
	defer f.mu.Unlock()
	var rs []quota.Reservation
	for q := range f.on {
		if r := q.reservation.Load(); r != nil && q.arrived.Before(t) {
			c := *r
			c.Used = min(q.used.Load(), c.Cost)
			rs = append(rs, c)
		}
	}
	return rs
}

// len returns how many requests are under way.
func (f *flight) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.on)
}
