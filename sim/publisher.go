package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
)

// PublisherConfig describes a Publisher. The zero value is vLLM's default.
type PublisherConfig struct {
	Topic   string // first frame of every message
	Buffer  int    // batches kept for replay; if zero, 10,000
	Queue   int    // batches waiting for one subscriber before more are dropped; if zero, 100,000
	NoTopic bool   // replay answers lack the topic frame, as up to vLLM 0.25
}

// Publisher offers KV-event batches on ZeroMQ sockets as vLLM does: a PUB
// socket that subscribers connect to, and a ROUTER socket for replay. Give
// Publish to KVEvents, Serve a listener for each socket, and Close it at the
// end.
//
// A message is [topic, number, payload], the number in 8 bytes, big-endian. A
// replay request from a DEALER is [empty, first number]; the answer is one
// message [empty, topic, number, payload] per batch and, at the end, one with
// the number 2^64-1 and no payload.
type Publisher struct {
	cfg PublisherConfig

	mu     sync.Mutex
	recent []numbered
	subs   map[*subscriber]struct{}
	conns  map[net.Conn]struct{}
	ls     []net.Listener
	closed bool
	wg     sync.WaitGroup
}

type numbered struct {
	number  uint64
	payload []byte
}

// subscriber is one connection to the PUB socket.
type subscriber struct {
	peer   *peer
	topics [][]byte // prefixes it asked for
	queue  []numbered
	wake   chan struct{}
	gone   bool
}

// NewPublisher returns a Publisher without subscribers.
func NewPublisher(cfg PublisherConfig) *Publisher {
	if cfg.Buffer == 0 {
		cfg.Buffer = 10_000
	}
	if cfg.Queue == 0 {
		cfg.Queue = 100_000
	}
	return &Publisher{cfg: cfg, subs: map[*subscriber]struct{}{}, conns: map[net.Conn]struct{}{}}
}

// Publish sends a batch to all subscribers; it fits KVEvents.Publish. Slow ones
// lose batches silently. A number that is not above the one before means that
// the process was restarted: what was kept for replay is gone.
func (p *Publisher) Publish(number uint64, payload []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.recent); n > 0 && number <= p.recent[n-1].number {
		p.recent = nil
	}
	if len(p.recent) == p.cfg.Buffer {
		p.recent = slices.Delete(p.recent, 0, p.cfg.Buffer/10+1)
	}
	p.recent = append(p.recent, numbered{number, payload})
	for s := range p.subs {
		wanted := slices.ContainsFunc(s.topics, func(prefix []byte) bool { return bytes.HasPrefix([]byte(p.cfg.Topic), prefix) })
		if wanted && len(s.queue) < p.cfg.Queue {
			s.queue = append(s.queue, numbered{number, payload})
			s.signal()
		}
	}
}

func (s *subscriber) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Serve accepts subscribers on l until l or the Publisher is closed.
func (p *Publisher) Serve(l net.Listener) error { return p.accept(l, p.subscribe) }

// ServeReplay accepts replay requests on l until l or the Publisher is closed.
func (p *Publisher) ServeReplay(l net.Listener) error { return p.accept(l, p.replay) }

func (p *Publisher) accept(l net.Listener, serve func(net.Conn)) error {
	p.mu.Lock()
	p.ls = append(p.ls, l)
	closed := p.closed
	p.mu.Unlock()
	if closed {
		_ = l.Close()
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		if !p.enter(conn) {
			return nil
		}
		go func() {
			defer p.leave(conn)
			serve(conn)
		}()
	}
}

func (p *Publisher) enter(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return false
	}
	p.conns[conn] = struct{}{}
	p.wg.Add(1)
	return true
}

func (p *Publisher) leave(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	delete(p.conns, conn)
	p.mu.Unlock()
	p.wg.Done()
}

// Close ends the listeners and all connections and waits for their goroutines.
func (p *Publisher) Close() {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.ls {
		_ = l.Close()
	}
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// subscribe serves one subscriber: a goroutine sends, this one reads what it
// subscribes to.
func (p *Publisher) subscribe(conn net.Conn) {
	peer, err := handshake(conn, "PUB")
	if err != nil {
		return
	}
	s := &subscriber{peer: peer, wake: make(chan struct{}, 1)}
	p.mu.Lock()
	p.subs[s] = struct{}{}
	p.mu.Unlock()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		p.feed(s)
	}()
	for {
		msg, err := peer.receive()
		if err != nil {
			break
		}
		p.topic(s, msg[0])
	}
	p.mu.Lock()
	delete(p.subs, s)
	s.gone = true
	p.mu.Unlock()
	s.signal()
	_ = conn.Close()
	<-sent
}

// topic applies a subscription: a byte 1 to begin it, 0 to end it, and the prefix.
func (p *Publisher) topic(s *subscriber, msg []byte) {
	if len(msg) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if msg[0] == 1 {
		s.topics = append(s.topics, msg[1:])
		return
	}
	if i := slices.IndexFunc(s.topics, func(t []byte) bool { return bytes.Equal(t, msg[1:]) }); i >= 0 {
		s.topics = slices.Delete(s.topics, i, i+1)
	}
}

// feed sends what is queued for a subscriber until it is gone.
func (p *Publisher) feed(s *subscriber) {
	for range s.wake {
		p.mu.Lock()
		queue, gone := s.queue, s.gone
		s.queue = nil
		p.mu.Unlock()
		if gone {
			return
		}
		for _, b := range queue {
			if err := s.peer.send([]byte(p.cfg.Topic), binary.BigEndian.AppendUint64(nil, b.number), b.payload); err != nil {
				_ = s.peer.conn.Close() // the reader notices, and ends this
				break
			}
		}
	}
}

// replay answers one DEALER's requests.
func (p *Publisher) replay(conn net.Conn) {
	peer, err := handshake(conn, "ROUTER")
	if err != nil || peer.kind != "DEALER" && peer.kind != "REQ" && peer.kind != "ROUTER" {
		return
	}
	for {
		msg, err := peer.receive()
		if err != nil {
			return
		}
		if len(msg) != 2 || len(msg[0]) != 0 || len(msg[1]) != 8 {
			continue
		}
		if p.answer(peer, binary.BigEndian.Uint64(msg[1])) != nil {
			return
		}
	}
}

func (p *Publisher) answer(peer *peer, from uint64) error {
	p.mu.Lock()
	i, _ := slices.BinarySearchFunc(p.recent, from, func(b numbered, n uint64) int {
		switch {
		case b.number < n:
			return -1
		case b.number > n:
			return 1
		}
		return 0
	})
	batches := slices.Clone(p.recent[i:])
	p.mu.Unlock()
	for _, b := range append(batches, numbered{number: 1<<64 - 1}) {
		frames := [][]byte{nil, []byte(p.cfg.Topic), binary.BigEndian.AppendUint64(nil, b.number), b.payload}
		if p.cfg.NoTopic {
			frames = slices.Delete(frames, 1, 2)
		}
		if err := peer.send(frames...); err != nil {
			return err
		}
	}
	return nil
}
