package faultproxy_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/faultproxy"
)

// server accepts connections and hands them to the test, which reads and
// writes at both ends itself.
type server struct {
	ln    net.Listener
	conns chan *net.TCPConn
}

func newServer(t *testing.T) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{ln: ln, conns: make(chan *net.TCPConn, 16)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				close(s.conns)
				return
			}
			s.conns <- conn.(*net.TCPConn)
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
		for conn := range s.conns {
			_ = conn.Close()
		}
	})
	return s
}

func (s *server) addr() string { return s.ln.Addr().String() }

func newProxy(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// pair returns both ends of a connection through p.
func pair(t *testing.T, p *faultproxy.Proxy, s *server) (client, target *net.TCPConn) {
	t.Helper()
	client = dial(t, p.Addr())
	target = <-s.conns
	t.Cleanup(func() { _ = target.Close() })
	return client, target
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	b := make([]byte, len(text))
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != text {
		t.Fatalf("read %q, %v, want %q", b, err, text)
	}
}

// expectEnd reads to the end, which must be as cut.
func expectEnd(t *testing.T, conn net.Conn, how faultproxy.How) {
	t.Helper()
	rest, err := io.ReadAll(conn)
	if len(rest) > 0 {
		t.Errorf("read %q, want the end", rest)
	}
	if reset := errors.Is(err, syscall.ECONNRESET); reset != (how == faultproxy.RST) {
		t.Errorf("connection ends with %v, want a reset: %v", err, how == faultproxy.RST)
	}
}

func TestForward(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr())
	client, target := pair(t, p, s)
	send(t, client, "hello")
	expect(t, target, "hello")
	send(t, target, "world")
	expect(t, client, "world")
	if p.Connections() != 1 || p.Accepted() != 1 {
		t.Errorf("%d connections, %d accepted, want 1 and 1", p.Connections(), p.Accepted())
	}
	// An end in one direction leaves the other open.
	_ = client.CloseWrite()
	expectEnd(t, target, faultproxy.FIN)
	send(t, target, "still here")
	expect(t, client, "still here")
	_ = target.CloseWrite()
	expectEnd(t, client, faultproxy.FIN)
}

func TestReset(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr())
	client, target := pair(t, p, s)
	_ = client.SetLinger(0)
	_ = client.Close()
	expectEnd(t, target, faultproxy.RST)
}

func TestCut(t *testing.T) {
	for _, how := range []faultproxy.How{faultproxy.FIN, faultproxy.RST} {
		s := newServer(t)
		p := newProxy(t, s.addr())
		client, target := pair(t, p, s)
		send(t, client, "x")
		expect(t, target, "x")
		if n := p.Cut(how); n != 1 {
			t.Errorf("Cut = %d, want 1", n)
		}
		expectEnd(t, client, how)
		expectEnd(t, target, how)
	}
}

func TestCutAfter(t *testing.T) {
	for _, how := range []faultproxy.How{faultproxy.FIN, faultproxy.RST} {
		s := newServer(t)
		p := newProxy(t, s.addr())
		p.Set(faultproxy.Down, faultproxy.Faults{CutAfter: 8, CutHow: how})
		client, target := pair(t, p, s)
		send(t, target, "12345")
		expect(t, client, "12345")
		send(t, client, "up is not counted")
		expect(t, target, "up is not counted")
		send(t, target, "67890")
		expect(t, client, "678")
		expectEnd(t, client, how)
	}
}

func TestDrop(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr())
	client, target := pair(t, p, s)
	p.Set(faultproxy.Down, faultproxy.Faults{Drop: true})
	send(t, client, "request")
	expect(t, target, "request")
	send(t, target, "reply")
	_ = target.CloseWrite()
	expectEnd(t, client, faultproxy.FIN)
}

func TestHold(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr())
	client, target := pair(t, p, s)
	p.Set(faultproxy.Up, faultproxy.Faults{Hold: true})
	send(t, client, "held")
	_ = client.CloseWrite()
	send(t, target, "not held")
	expect(t, client, "not held")
	_ = target.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := target.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
		t.Errorf("held direction: read %d bytes, %v", n, err)
	}
	_ = target.SetReadDeadline(time.Time{})
	p.Heal()
	expect(t, target, "held")
	expectEnd(t, target, faultproxy.FIN)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func TestDelay(t *testing.T) {
	const delay = 30 * time.Millisecond
	s := newServer(t)
	p := newProxy(t, s.addr())
	p.Set(faultproxy.Down, faultproxy.Faults{Delay: delay})
	client, target := pair(t, p, s)
	begin := time.Now()
	send(t, target, "late")
	expect(t, client, "late")
	if took := time.Since(begin); took < delay {
		t.Errorf("arrived after %v, want at least %v", took, delay)
	}
	// Lifting it lets go of what is on its way.
	p.Set(faultproxy.Down, faultproxy.Faults{Delay: time.Hour})
	send(t, target, "on its way")
	p.Heal()
	expect(t, client, "on its way")
}

func TestSlice(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr())
	p.Set(faultproxy.Up, faultproxy.Faults{Slice: 3, Gap: time.Hour})
	client, target := pair(t, p, s)
	send(t, client, "0123456789")
	b := make([]byte, 100)
	if n, err := target.Read(b); err != nil || string(b[:n]) != "012" {
		t.Errorf("first read %q, %v, want one slice", b[:n], err)
	}
	p.Set(faultproxy.Up, faultproxy.Faults{Slice: 3})
	expect(t, target, "3456789")
}

// expectRefused connects, which may already fail, and expects a reset.
func expectRefused(t *testing.T, p *faultproxy.Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer func() { _ = conn.Close() }()
		_, err = io.ReadAll(conn)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("refused connection ends with %v, want a reset", err)
	}
}

func TestRefuseAndTarget(t *testing.T) {
	first, second := newServer(t), newServer(t)
	p := newProxy(t, first.addr())
	p.Refuse(true)
	expectRefused(t, p)
	p.Heal()
	client, target := pair(t, p, first)
	p.SetTarget(second.addr())
	other, otherTarget := pair(t, p, second)
	send(t, client, "first")
	expect(t, target, "first")
	send(t, other, "second")
	expect(t, otherTarget, "second")
	_ = second.ln.Close()
	expectRefused(t, p)
	if p.Accepted() != 4 {
		t.Errorf("Accepted = %d, want 4", p.Accepted())
	}
}

func TestBulk(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s.addr())
	p.Set(faultproxy.Up, faultproxy.Faults{Delay: time.Millisecond, Slice: 5000})
	client, target := pair(t, p, s)
	want := make([]byte, 5<<20)
	_, _ = rand.Read(want)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = client.Write(want)
		_ = client.CloseWrite()
	})
	got, err := io.ReadAll(target)
	wg.Wait()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v, want the %d sent", len(got), err, len(want))
	}
}

// TestCloseLeavesNothing closes a proxy whose links are in every state.
func TestCloseLeavesNothing(t *testing.T) {
	s := newServer(t)
	before := runtime.NumGoroutine()
	for _, f := range []faultproxy.Faults{{}, {Hold: true}, {Delay: time.Hour}, {Slice: 1, Gap: time.Hour}, {Drop: true}} {
		p, err := faultproxy.New(s.addr())
		if err != nil {
			t.Fatal(err)
		}
		p.Set(faultproxy.Up, f)
		client, target := pair(t, p, s)
		send(t, client, "some bytes")
		if f.Slice > 0 {
			expect(t, target, "s")
		}
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if p.Connections() != 0 {
			t.Errorf("%+v: %d connections left", f, p.Connections())
		}
	}
	// A goroutine that has told Close of its end may still be counted for a moment.
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
