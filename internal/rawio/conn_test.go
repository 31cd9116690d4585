package rawio_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/rawio"
)

// pair returns both ends of a connection, wrapped.
func pair(t testing.TB) (a, b net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = rawio.Listener(l)
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a = rawio.Wrap(dialled)
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// TestBytesArrive sends random pieces in both directions at once, more than
// the sockets' buffers hold.
func TestBytesArrive(t *testing.T) {
	a, b := pair(t)
	var wg sync.WaitGroup
	send := func(from, to net.Conn, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		want := make([]byte, 8<<20)
		for i := range want {
			want[i] = byte(rnd.Uint32())
		}
		wg.Go(func() {
			for rest := want; len(rest) > 0; {
				n := min(len(rest), 1+rnd.IntN(300_000))
				if wrote, err := from.Write(rest[:n]); wrote != n || err != nil {
					t.Errorf("Write: %d, %v, want %d", wrote, err, n)
					return
				}
				rest = rest[n:]
			}
			if err := from.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if got, err := io.ReadAll(to); err != nil || !bytes.Equal(got, want) {
				t.Errorf("read %d bytes, %v, want the %d sent", len(got), err, len(want))
			}
		})
	}
	send(a, b, 1)
	send(b, a, 2)
	wg.Wait()
}

func TestNothingToDo(t *testing.T) {
	a, _ := pair(t)
	if n, err := a.Read(nil); n != 0 || err != nil {
		t.Errorf("Read into nothing: %d, %v", n, err)
	}
	if n, err := a.Write(nil); n != 0 || err != nil {
		t.Errorf("Write of nothing: %d, %v", n, err)
	}
}

// TestDeadlines end a wait under way, and one that has not begun.
func TestDeadlines(t *testing.T) {
	a, b := pair(t)
	done := make(chan error)
	go func() {
		_, err := a.Read(make([]byte, 1))
		done <- err
	}()
	_ = a.SetReadDeadline(time.Unix(1, 0))
	check := func(what string, err error) {
		t.Helper()
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s: %v, want a deadline exceeded", what, err)
		}
	}
	check("Read under way", <-done)
	_, err := a.Read(make([]byte, 1))
	check("Read", err)
	_ = a.SetReadDeadline(time.Time{})
	if _, err := b.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Read(make([]byte, 8)); n != 1 || err != nil {
		t.Errorf("Read after the deadline was lifted: %d, %v", n, err)
	}
	go func() {
		n, err := a.Write(make([]byte, 64<<20))
		if n == 0 {
			t.Error("nothing was written")
		}
		done <- err
	}()
	if _, err := io.ReadFull(b, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	_ = a.SetWriteDeadline(time.Unix(1, 0))
	check("Write under way", <-done)
	_, err = a.Write([]byte("x"))
	check("Write", err)
}

// TestClose ends waits, on both sides.
func TestClose(t *testing.T) {
	a, b := pair(t)
	done := make(chan error)
	go func() {
		_, err := a.Read(make([]byte, 1))
		done <- err
	}()
	go func() {
		_, err := io.Copy(io.Discard, b)
		done <- err
	}()
	a.Close()
	closed, ended := <-done, <-done
	if closed == nil {
		closed, ended = ended, closed
	}
	if !errors.Is(closed, net.ErrClosed) || ended != nil {
		t.Errorf("own side: %v, other side: %v; want ErrClosed and the end", closed, ended)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
}

// TestReset: errors of the system are those that net has.
func TestReset(t *testing.T) {
	a, b := pair(t)
	if err := b.(interface{ SetLinger(int) error }).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	b.Close()
	_, err := a.Read(make([]byte, 1))
	var op *net.OpError
	if !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &op) || op.Op != "read" || op.Net != "tcp" || op.Addr.String() != a.RemoteAddr().String() {
		t.Errorf("Read: %#v, want a reset", err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Write: %v, want a broken pipe", err)
	}
}

func TestNotTCP(t *testing.T) {
	a, _ := net.Pipe()
	if rawio.Wrap(a) != a {
		t.Error("a pipe was wrapped")
	}
	b, _ := pair(t)
	if rawio.Wrap(b) != b {
		t.Error("a connection was wrapped twice")
	}
}

func TestDoesNotAllocate(t *testing.T) {
	a, b := pair(t)
	p, q := make([]byte, 300), make([]byte, 300)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := a.Write(p); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(b, q); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
}
