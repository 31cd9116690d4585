package h1

import (
	"slices"
	"sync"
	"time"
)

// idle holds the connections between two requests.
type idle struct {
	most int
	keep time.Duration

	mu    sync.Mutex
	conns map[address][]*conn // the one used last is last
	timer *time.Timer         // runs while there are any
}

func (p *idle) init(most int, keep time.Duration) {
	p.most, p.keep, p.conns = most, keep, make(map[address][]*conn)
}

// take returns a connection that is still open as far as can be told, or nil:
// the one used last, so that those that are one too many grow old and go.
func (p *idle) take(key address) *conn {
	now := time.Now()
	for {
		p.mu.Lock()
		list := p.conns[key]
		if len(list) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := list[len(list)-1]
		list[len(list)-1] = nil
		p.conns[key] = list[:len(list)-1] // an empty list goes when it expires
		p.mu.Unlock()
		if now.Sub(c.since) < p.keep && c.quiet() {
			c.reused = true
			return c
		}
		c.Close()
	}
}

// put keeps c for the next request.
func (p *idle) put(c *conn) {
	c.since = time.Now()
	p.mu.Lock()
	list := p.conns[c.key]
	if len(list) >= p.most {
		p.mu.Unlock()
		c.Close()
		return
	}
	defer p.mu.Unlock()
	p.conns[c.key] = append(list, c)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.keep, p.expire)
	}
}

// expire closes the connections that were kept for long enough.
func (p *idle) expire() {
	for _, c := range p.expired(time.Now()) {
		c.Close()
	}
}

// expired takes them out, and sets the timer for the next.
func (p *idle) expired(now time.Time) (old []*conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return nil
	}
	next := p.keep
	for key, list := range p.conns {
		n := 0
		for n < len(list) && now.Sub(list[n].since) >= p.keep {
			n++
		}
		old = append(old, list[:n]...)
		if list = slices.Delete(list, 0, n); len(list) == 0 {
			delete(p.conns, key)
			continue
		}
		p.conns[key] = list
		next = min(next, p.keep-now.Sub(list[0].since))
	}
	if len(p.conns) == 0 {
		p.timer = nil
		return old
	}
	p.timer.Reset(next)
	return old
}

func (p *idle) closeAll() {
	p.mu.Lock()
	conns := p.conns
	p.conns = make(map[address][]*conn)
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	for _, list := range conns {
		for _, c := range list {
			c.Close()
		}
	}
}
