package main

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// nameServer is a small DNS server. To every question for an IPv4 address it
// answers with the same addresses, or that there is no such name.
type nameServer struct {
	conn  net.PacketConn
	mu    sync.Mutex
	addrs []string // nil: there is no such name
	asked int
}

func startNameServer(t *testing.T, addrs ...string) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn, addrs: addrs}
	var wg sync.WaitGroup
	wg.Go(s.serve)
	t.Cleanup(func() { conn.Close(); wg.Wait() })
	return s
}

func (s *nameServer) set(addrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs, s.asked = addrs, 0
}

// count returns how many questions were answered since set.
func (s *nameServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if a := s.answer(buf[:n]); a != nil {
			_, _ = s.conn.WriteTo(a, from)
		}
	}
}

// answer builds the message of RFC 1035, section 4, that answers q.
func (s *nameServer) answer(q []byte) []byte {
	const header, typeA = 12, 1
	end := header
	for end < len(q) && q[end] != 0 {
		end += int(q[end]) + 1
	}
	if end += 5; end > len(q) { // the root, type and class
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := append([]byte(nil), q[:end]...)
	clear(a[6:header])   // no records but the question, which is all there is of q
	a[2], a[3] = 0x84, 0 // an answer, and the last word
	if s.addrs == nil {
		a[3] = 3 // no such name
	}
	if binary.BigEndian.Uint16(q[end-4:]) != typeA {
		return a
	}
	s.asked++
	binary.BigEndian.PutUint16(a[6:], uint16(len(s.addrs)))
	for _, addr := range s.addrs {
		ip := netip.MustParseAddr(addr).As4()
		a = append(a, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4) // the name of the question, for no time
		a = append(a, ip[:]...)
	}
	return a
}

// resolver asks s, and nobody else.
func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}
