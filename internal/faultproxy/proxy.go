// Package faultproxy is a TCP proxy that does to connections what networks
// and dying peers do: it delays, slices, holds back and loses bytes, and cuts
// connections off, in each direction and at any moment. It is for tests.
package faultproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// A Proxy accepts connections on a loopback address and forwards each to the
// target. All methods may be called at any time by any goroutine.
type Proxy struct {
	ln     net.Listener
	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	target   string
	faults   [2]Faults
	refuse   bool
	changed  chan struct{} // closed when faults change
	links    map[*link]struct{}
	accepted int
}

// New starts a Proxy for a target, a TCP address, which need not exist yet.
func New(target string) (*Proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultproxy: listen: %w", err)
	}
	p := &Proxy{ln: ln, target: target, changed: make(chan struct{}), links: make(map[*link]struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the address to connect to.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// SetTarget sends connections accepted from here on to another address. Those
// that exist stay where they are; Cut ends them.
func (p *Proxy) SetTarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Set replaces the faults of one direction, for existing connections too.
func (p *Proxy) Set(d Direction, f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[d] = f
	close(p.changed)
	p.changed = make(chan struct{})
}

// Heal takes all faults away. What was held flows again; what was dropped
// stays lost.
func (p *Proxy) Heal() {
	p.Refuse(false)
	p.Set(Up, Faults{})
	p.Set(Down, Faults{})
}

// Refuse makes the Proxy reset new connections before it reads from them.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Cut ends all existing connections on both sides and returns how many.
func (p *Proxy) Cut(how How) int {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.end(how)
	}
	return len(links)
}

// Connections returns how many connections are being forwarded.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Accepted returns how many connections have been accepted so far, refused
// ones included.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Close stops listening, ends all connections and waits until nothing of the
// Proxy runs any more.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.ln.Close()
	p.Cut(FIN)
	p.wg.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	p.accepted++
	target, refuse := p.target, p.refuse
	p.mu.Unlock()
	if refuse {
		closeAs(client, RST)
		return
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(p.ctx, "tcp", target)
	if err != nil {
		closeAs(client, RST)
		return
	}
	l := newLink(p, client, conn.(*net.TCPConn))
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		l.end(FIN) // Close may have looked before the link was there
	}
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// current returns the faults of a direction and a channel that is closed
// when they change.
func (p *Proxy) current(d Direction) (Faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[d], p.changed
}
