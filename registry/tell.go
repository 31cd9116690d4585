package registry

import "slices"

// listener is a function given to Pool.OnHealth.
type listener struct {
	hear func(r *Replica, ejected bool, why Reason)
}

// verdict is one change of a replica's health that listeners have not heard.
type verdict struct {
	replica *Replica
	ejected bool
	why     Reason
}

// news is what a pool tells those who listen, guarded by the pool's lock.
type news struct {
	listeners []*listener
	untold    []verdict
	telling   bool // some goroutine is calling listeners
}

// OnHealth adds a function to be called once for each time a replica is
// ejected and for each time it is back, in that order, with the reason for
// the ejection. A replica that is removed while ejected is not back. f is
// called one change at a time without any lock of this package, from whichever
// goroutine made a change, so it must be quick. After stop f hears of no later
// change.
func (p *Pool) OnHealth(f func(r *Replica, ejected bool, why Reason)) (stop func()) {
	l := &listener{f}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.news.listeners = append(slices.Clip(p.news.listeners), l)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.news.listeners = slices.DeleteFunc(slices.Clone(p.news.listeners), func(o *listener) bool { return o == l })
	}
}

// noteLocked keeps a change until tell is called.
func (p *Pool) noteLocked(r *Replica, ejected bool) {
	if len(p.news.listeners) > 0 {
		p.news.untold = append(p.news.untold, verdict{r, ejected, r.health.reason})
	}
}

// tell calls the listeners for what was noted. Whoever comes while another
// goroutine tells leaves its news to that one, which keeps the order and lets
// a listener change the health of a replica.
func (p *Pool) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.news.telling {
		return
	}
	p.news.telling = true
	defer func() { p.news.telling = false }()
	for len(p.news.untold) > 0 {
		v, listeners := p.news.untold[0], p.news.listeners
		p.news.untold = p.news.untold[1:]
		p.call(v, listeners)
	}
}

// call leaves the pool's lock while it calls the listeners.
func (p *Pool) call(v verdict, listeners []*listener) {
	p.mu.Unlock()
	defer p.mu.Lock()
	for _, l := range listeners {
		l.hear(v.replica, v.ejected, v.why)
	}
}
