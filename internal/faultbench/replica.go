package faultbench

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Accept is what a Replica does with a new connection.
type Accept int32

// The ways to accept.
const (
	Serve     Accept = iota
	Mute             // nothing is read and nothing sent
	Reset            // the connection is reset at once
	Hangup           // the connection is closed at once
	ResetHead        // the connection is reset when the head of a generation request has come
)

// Replica is a scripted engine on a loopback socket. It reads requests by
// itself, so that a script rules every byte of what it sends. All fields must
// be set before Start; methods may be called at any time.
type Replica struct {
	Name     string
	Model    string        // served model; If empty, acme-8b
	KV       int           // cache capacity reported, in tokens. If zero, 200,000
	Idle     time.Duration // an idle connection is closed after it. If zero, never
	Ledger   *Ledger       // shared by the replicas of a house
	Respond  func(*Got) Script
	Fatal    Fatal                     // a prompt that takes it down
	Adapters AdapterSlots              // its LoRA adapters
	Waiting  int                       // requests in the engine's own line, as it reports them
	Usage    float64                   // share of the cache in use, as it reports it
	Face     func(path string) *Script // answers probes and scrapes; nil, or a nil Script: the usual answer

	accept  atomic.Int32
	conns   atomic.Int64
	running atomic.Int64
	tokens  atomic.Int64
	started atomic.Int64 // unix nanoseconds: changes at each restart
	peak    atomic.Int64
	report  atomic.Int32
	frozen  atomic.Pointer[[]byte]
	deaths  atomic.Int64
	stopped chan struct{} // closed by Stop

	mu   sync.Mutex
	addr string
	ln   net.Listener
	open map[*conn]struct{}
	wg   sync.WaitGroup
}

// Start listens on a free loopback port.
func (r *Replica) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = make(chan struct{})
	return r.listenLocked("127.0.0.1:0")
}

func (r *Replica) listenLocked(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("faultbench: listen: %w", err)
	}
	r.ln, r.addr = ln, ln.Addr().String()
	r.ResetCounters() // it is a new process
	if r.open == nil {
		r.open = make(map[*conn]struct{})
	}
	r.wg.Go(func() { r.serve(ln) })
	return nil
}

// Addr is the host and port it listens on, also while it is dead.
func (r *Replica) Addr() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addr
}

// URL is the base address.
func (r *Replica) URL() string { return "http://" + r.Addr() }

// SetAccept changes what happens to new connections.
func (r *Replica) SetAccept(a Accept) { r.accept.Store(int32(a)) }

// Conns returns how many connections were accepted so far.
func (r *Replica) Conns() int { return int(r.conns.Load()) }

// Running returns how many generation requests are under way.
func (r *Replica) Running() int { return int(r.running.Load()) }

// Peak returns the most that were under way at once.
func (r *Replica) Peak() int { return int(r.peak.Load()) }

// Kill ends the process in effect: nobody listens, all connections are reset.
func (r *Replica) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ln != nil {
		_ = r.ln.Close()
		r.ln = nil
	}
	for c := range r.open {
		c.reset()
	}
}

// Revive starts a new process at the old address.
func (r *Replica) Revive() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ln != nil {
		return nil
	}
	return r.listenLocked(r.addr)
}

// CutAll resets all connections and goes on listening.
func (r *Replica) CutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		c.reset()
	}
}

// Stop ends the replica and waits for everything it runs.
func (r *Replica) Stop() {
	r.Kill()
	close(r.stopped)
	r.wg.Wait()
}

func (r *Replica) serve(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		n := int(r.conns.Add(1))
		switch Accept(r.accept.Load()) {
		case Reset:
			_ = nc.(*net.TCPConn).SetLinger(0)
			_ = nc.Close()
			continue
		case Hangup:
			_ = nc.Close()
			continue
		}
		c := &conn{r: r, n: n, nc: nc.(*net.TCPConn), requests: make(chan *inbound), left: make(chan struct{})}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		r.mu.Lock()
		if r.ln != ln { // killed meanwhile
			r.mu.Unlock()
			c.reset()
			continue
		}
		r.open[c] = struct{}{}
		r.mu.Unlock()
		r.wg.Go(c.read)
		r.wg.Go(c.work)
	}
}
