package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy forwards TCP connections to a server and spoils them on demand. Its
// methods are safe for concurrent use.
type Proxy struct {
	Addr string

	mu      sync.Mutex
	target  string
	delay   time.Duration // of each piece of a reply
	drop    int           // replies still to swallow
	refuse  bool
	silent  bool
	conns   map[net.Conn]struct{}
	dropped int
	wg      sync.WaitGroup
	closed  bool
}

// NewProxy starts a proxy to the server at target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, conns: map[net.Conn]struct{}{}}
	p.wg.Go(func() { p.accept(l) })
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Delay holds back each piece of a reply for d from now on.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// DropReplies swallows the next n replies, after the server has done what it was
// asked, and cuts their connections.
func (p *Proxy) DropReplies(n int) { p.set(func() { p.drop += n }) }

// Silence swallows everything in both directions while on; connections stay
// open, new ones are accepted.
func (p *Proxy) Silence(on bool) { p.set(func() { p.silent = on }) }

// Refuse closes new connections at once while on.
func (p *Proxy) Refuse(on bool) { p.set(func() { p.refuse = on }) }

// Target makes new connections go to another server.
func (p *Proxy) Target(addr string) { p.set(func() { p.target = addr }) }

// Dropped returns how many replies were swallowed.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *Proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse, target := p.refuse || p.closed, p.target
		p.mu.Unlock()
		if refuse {
			c.Close()
			continue
		}
		p.wg.Go(func() { p.serve(c, target) })
	}
}

func (p *Proxy) serve(client net.Conn, target string) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.keep(client, server) {
		return
	}
	defer p.set(func() {
		delete(p.conns, client)
		delete(p.conns, server)
	})
	var wg sync.WaitGroup
	wg.Go(func() { p.pump(server, client, false) })
	p.pump(client, server, true)
	wg.Wait()
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

// pump copies from src to dst until either ends, then closes both.
func (p *Proxy) pump(dst, src net.Conn, replies bool) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		silent, cut, delay := p.fate(replies)
		if cut {
			return
		}
		if silent {
			continue
		}
		if delay > 0 {
			<-time.After(delay)
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

// fate decides what happens to one piece of data.
func (p *Proxy) fate(reply bool) (silent, cut bool, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !reply || p.silent {
		return p.silent, false, 0
	}
	if p.drop > 0 {
		p.drop--
		p.dropped++
		return false, true, 0
	}
	return false, false, p.delay
}
