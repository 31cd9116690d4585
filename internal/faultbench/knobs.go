package faultbench

import (
	"strings"
	"sync"
	"time"
)

// Report is what a Replica's /metrics do.
type Report int32

// The ways to report.
const (
	Truth   Report = iota // the figures as they are
	Stale                 // an answer, but always that of the moment at which this began
	Hung                  // the request is taken and never answered
	Garbage               // an answer that is not of the format
)

// SetReport changes what /metrics do from the next scrape on.
func (r *Replica) SetReport(how Report) {
	r.frozen.Store(nil)
	if how == Stale {
		page := r.page()
		r.frozen.Store(&page)
	}
	r.report.Store(int32(how))
}

// report answers a scrape.
func (r *Replica) scrape() Script {
	page := r.page()
	switch Report(r.report.Load()) {
	case Hung:
		return Script{End: Silent}
	case Garbage:
		page = []byte("\x00vllm:num_requests_running{ NaN\n\xff\xfe<html>" + strings.Repeat("{", 1000))
	case Stale:
		if p := r.frozen.Load(); p != nil {
			page = *p
		}
	}
	sc := JSON(200, page, 0)
	sc.Header.Set("Content-Type", "text/plain; version=0.0.4")
	return sc
}

// ResetCounters lets the counters of /metrics begin anew, as those of an
// engine that was restarted under the same address.
func (r *Replica) ResetCounters() {
	r.tokens.Store(0)
	r.started.Store(time.Now().UnixNano())
}

// Fatal is a text in a prompt that takes an engine down.
type Fatal struct {
	Text  string        // If empty, none does
	After time.Duration // from the request's arrival
	Down  time.Duration // until a new process listens at the same address. If zero, for ever
}

// Deaths returns how often a prompt has taken the engine down.
func (r *Replica) Deaths() int { return int(r.deaths.Load()) }

// die ends the process in effect, if the request is one of those that do, and
// reports whether it was.
func (r *Replica) die(c *conn, body []byte) bool {
	f := r.Fatal
	if f.Text == "" || !strings.Contains(string(body), f.Text) {
		return false
	}
	c.pause(f.After) // it dies also if the peer has left meanwhile
	r.deaths.Add(1)
	r.Kill()
	if f.Down > 0 {
		r.wg.Go(func() {
			wait := time.NewTimer(f.Down)
			defer wait.Stop()
			select {
			case <-wait.C:
				_ = r.Revive() // a port that somebody else has taken: it stays dead
			case <-r.stopped:
			}
		})
	}
	return true
}

// AdapterSlots is how an engine keeps LoRA adapters: so many at once, the one
// that was not used for longest makes room.
type AdapterSlots struct {
	Slots int           // If zero, adapters take neither room nor time
	Load  time.Duration // to load one that is not there

	mu     sync.Mutex
	held   []*held // least recently used first
	loads  int
	change chan struct{} // closed when a slot may have become free
}

type held struct {
	name  string
	ready time.Time
	users int
}

// Loads returns how often an adapter had to be loaded.
func (a *AdapterSlots) Loads() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.loads
}

// Held returns the names of the adapters that are loaded, the least recently
// used first, and of those with requests on them.
func (a *AdapterSlots) Held() (names, running []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.held {
		names = append(names, h.name)
		if h.users > 0 {
			running = append(running, h.name)
		}
	}
	return names, running
}

// use waits until name is loaded, in line behind those that have slots, and
// reports whether the peer is still there. A request that uses one must be
// done with it.
func (a *AdapterSlots) use(c *conn, name string) bool {
	for {
		h, wait := a.take(name)
		if h != nil {
			if c.pause(time.Until(h.ready)) {
				return true
			}
			a.done(name)
			return false
		}
		select {
		case <-wait:
		case <-c.ctx.Done():
			return false
		}
	}
}

// take returns the slot of name, or what to wait for.
func (a *AdapterSlots) take(name string) (*held, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, h := range a.held {
		if h.name == name {
			a.held = append(append(a.held[:i:i], a.held[i+1:]...), h)
			h.users++
			return h, nil
		}
	}
	if len(a.held) == a.Slots {
		for i, h := range a.held {
			if h.users == 0 {
				a.held = append(a.held[:i:i], a.held[i+1:]...)
				break
			}
		}
	}
	if len(a.held) == a.Slots {
		if a.change == nil {
			a.change = make(chan struct{})
		}
		return nil, a.change
	}
	h := &held{name: name, ready: time.Now().Add(a.Load), users: 1}
	a.held = append(a.held, h)
	a.loads++
	return h, nil
}

func (a *AdapterSlots) done(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.held {
		if h.name == name {
			h.users--
		}
	}
	if a.change != nil {
		close(a.change)
		a.change = nil
	}
}
