package expediter

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// flight holds the requests under way.
type flight struct {
	mu      sync.Mutex
	on      map[*request]struct{}
	changed chan struct{} // closed when the last one leaves, while somebody waits
}

func (f *flight) init() { f.on = make(map[*request]struct{}) }

func (f *flight) enter(q *request) {
	f.mu.Lock()
	f.on[q] = struct{}{}
	f.mu.Unlock()
}

func (f *flight) leave(q *request) {
	f.mu.Lock()
	delete(f.on, q)
	if len(f.on) == 0 && f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
	f.mu.Unlock()
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
