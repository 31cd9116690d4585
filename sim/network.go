package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Network is an in-memory network of stream connections. It behaves like TCP
// where HTTP notices: buffers of limited size, deadlines, half-close, reset,
// refused and unanswered dials, and an optional delay. All its waiting is
// durable in the sense of testing/synctest, so whole pipelines can run in a
// bubble over it.
//
// The zero value is ready to use. Methods are safe for concurrent use.
type Network struct {
	Delay  time.Duration // one way, of data, of a close and of a dial; set before use
	Buffer int           // bytes in flight per direction before a write blocks; if zero, 64 KiB
	Idle   time.Duration // after which Serve drops an idle connection; if zero, 5 s

	mu    sync.Mutex
	hosts map[string]*Listener
	ports int
	dials atomic.Int64
}

// Listener accepts connections made by Network.DialContext. Besides being a
// net.Listener, it can be made to fail as hosts do.
type Listener struct {
	net  *Network
	addr address

	mu      sync.Mutex
	queue   []*Conn
	conns   map[*Conn]struct{}
	changed chan struct{} // closed at every change, when somebody waits
	refuse  bool
	silent  bool
	mute    bool
	resets  int // connections to reset as soon as they are accepted
	closed  bool
}

// address is a host and port.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// Listen opens addr, which is any "host:port" not in use.
func (n *Network) Listen(addr string) (*Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("sim: listen: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts[addr] != nil {
		return nil, fmt.Errorf("sim: listen %s: %w", addr, syscall.EADDRINUSE)
	}
	l := &Listener{net: n, addr: address(addr), conns: map[*Conn]struct{}{}}
	if n.hosts == nil {
		n.hosts = map[string]*Listener{}
	}
	n.hosts[addr] = l
	return l, nil
}

// DialContext connects to addr; it fits http.Transport.DialContext. Nobody
// listening there means connection refused.
func (n *Network) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	n.dials.Add(1)
	if err := sleep(ctx, n.Delay); err != nil {
		return nil, dialError(addr, err)
	}
	for {
		n.mu.Lock()
		l := n.hosts[addr]
		n.mu.Unlock()
		if l == nil {
			return nil, dialError(addr, syscall.ECONNREFUSED)
		}
		c, wait, err := l.connect()
		if err != nil {
			return nil, dialError(addr, err)
		}
		if c != nil {
			if err := sleep(ctx, n.Delay); err != nil {
				_ = c.Close()
				return nil, dialError(addr, err)
			}
			return c, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, dialError(addr, ctx.Err())
		}
	}
}

// Dials returns how many connections have been asked for.
func (n *Network) Dials() int { return int(n.dials.Load()) }

func dialError(addr string, err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: address(addr), Err: err}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Transport returns a new http.Transport that dials in the network. It drops
// idle connections after 4 s, before vLLM does.
func (n *Network) Transport() *http.Transport {
	return &http.Transport{
		DialContext:         n.DialContext,
		MaxIdleConnsPerHost: 1000,
		IdleConnTimeout:     4 * time.Second,
		DisableCompression:  true,
	}
}

// Host is an HTTP server in a Network.
type Host struct {
	*Listener
	srv  *http.Server
	done chan struct{}
}

// Serve answers HTTP on addr with h. Like vLLM's server it speaks HTTP/1.1 and
// drops connections that were idle for n.Idle. The caller must Close the Host.
func (n *Network) Serve(addr string, h http.Handler) (*Host, error) {
	l, err := n.Listen(addr)
	if err != nil {
		return nil, err
	}
	host := &Host{Listener: l, done: make(chan struct{})}
	host.srv = &http.Server{Handler: h, IdleTimeout: cmp.Or(n.Idle, 5*time.Second), MaxHeaderBytes: 4 << 20}
	go func() {
		defer close(host.done)
		_ = host.srv.Serve(l)
	}()
	return host, nil
}

// Close ends the listener and every connection, and waits until the server has
// stopped accepting. Handlers see their request's context end.
func (h *Host) Close() error {
	err := h.srv.Close()
	<-h.done
	h.Reset() // those the server never saw
	return err
}

// URL is the http address of the host.
func (h *Host) URL() string { return "http://" + string(h.addr) }

// connect makes a connection. It returns none and a channel to wait on if the
// host does not answer.
func (l *Listener) connect() (*Conn, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed || l.refuse:
		return nil, nil, syscall.ECONNREFUSED
	case l.silent:
		return nil, l.waitLocked(), nil
	}
	client, server := l.net.pair(l.addr)
	server.owner = l
	switch {
	case l.resets > 0:
		l.resets--
		server.owner = nil
		server.Reset()
	case l.mute:
		l.conns[server] = struct{}{}
	default:
		l.conns[server] = struct{}{}
		l.queue = append(l.queue, server)
		l.signalLocked()
	}
	return client, nil, nil
}

func (n *Network) pair(addr address) (client, server *Conn) {
	n.mu.Lock()
	n.ports++
	from := address(fmt.Sprintf("127.0.0.1:%d", 1024+n.ports))
	n.mu.Unlock()
	limit := n.Buffer
	if limit == 0 {
		limit = 64 << 10
	}
	up, down := newLane(limit, n.Delay), newLane(limit, n.Delay)
	client = &Conn{in: down, out: up, local: from, remote: addr}
	server = &Conn{in: up, out: down, local: addr, remote: from}
	return client, server
}

func (l *Listener) waitLocked() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

func (l *Listener) signalLocked() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
		}
		if len(l.queue) > 0 {
			c := l.queue[0]
			l.queue = l.queue[1:]
			l.mu.Unlock()
			return c, nil
		}
		wait := l.waitLocked()
		l.mu.Unlock()
		<-wait
	}
}

// Close stops accepting and frees the address; connections stay.
func (l *Listener) Close() error {
	l.net.mu.Lock()
	if l.net.hosts[string(l.addr)] == l {
		delete(l.net.hosts, string(l.addr))
	}
	l.net.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errors.New("sim: listener is closed")
	}
	l.closed = true
	l.signalLocked()
	return nil
}

// Addr returns the address.
func (l *Listener) Addr() net.Addr { return l.addr }

// Refuse makes the host refuse new connections, or accept them again.
func (l *Listener) Refuse(on bool) { l.set(func() { l.refuse = on }) }

// Blackhole makes the host leave new connections unanswered, or answer again.
func (l *Listener) Blackhole(on bool) { l.set(func() { l.silent = on }) }

// Mute makes the host accept new connections and never read from them, or
// serve new ones again.
func (l *Listener) Mute(on bool) { l.set(func() { l.mute = on }) }

// ResetNext makes the host reset the next n connections once they are accepted.
func (l *Listener) ResetNext(n int) { l.set(func() { l.resets = n }) }

func (l *Listener) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.signalLocked()
}

// Reset breaks every open connection as a killed process does: the peer's
// reads and writes fail with connection reset.
func (l *Listener) Reset() {
	l.mu.Lock()
	conns := make([]*Conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		c.Reset()
	}
}

// Conns returns the number of open connections.
func (l *Listener) Conns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}
