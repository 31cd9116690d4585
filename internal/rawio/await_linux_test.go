//go:build linux && !386

package rawio_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/rawio"
)

// gather reads all that comes on c in steps with room for size bytes.
func gather(c net.Conn, size int) (got []byte, end, err error) {
	now := c.(rawio.Now)
	p := make([]byte, size)
	err = now.Await(func() bool {
		for {
			n, err := now.ReadNow(p)
			got = append(got, p[:n]...)
			switch err {
			case nil:
			case rawio.ErrNotYet:
				return false
			default:
				end = err
				return true
			}
		}
	})
	return got, end, err
}

// TestAwaitTakesAll sends pieces of any size into steps of any size.
func TestAwaitTakesAll(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		a, b := pair(t)
		want := make([]byte, 1+rnd.IntN(300_000))
		for i := range want {
			want[i] = byte(rnd.Uint32())
		}
		size := 1 + rnd.IntN(4096)
		go func() {
			defer a.Close()
			for rest := want; len(rest) > 0; {
				n := min(len(rest), 1+rnd.IntN(9000))
				if _, err := a.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
				if n%3 == 0 {
					runtime.Gosched()
				}
			}
		}()
		got, end, err := gather(b, size)
		if !bytes.Equal(got, want) || end != io.EOF || err != nil {
			t.Fatalf("seed %d: %d bytes of %d, end %v, error %v", seed, len(got), len(want), end, err)
		}
	}
}

// TestAwaitSeesTheEnd that comes together with the last bytes, in one notice of
// the poller's: with one processor nobody asks it in between.
func TestAwaitSeesTheEnd(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, reset := range []bool{false, true} {
		for i := range 100 {
			a, b := pair(t)
			waiting := make(chan struct{}, 1)
			done := make(chan error, 1)
			go func() {
				var last error
				now, p := b.(rawio.Now), make([]byte, 100)
				err := now.Await(func() bool {
					for {
						_, last = now.ReadNow(p)
						if last != nil {
							select {
							case waiting <- struct{}{}:
							default:
							}
							return last != rawio.ErrNotYet
						}
					}
				})
				done <- errors.Join(err, last)
			}()
			<-waiting
			for range i % 4 {
				runtime.Gosched() // it waits, or will
			}
			if _, err := a.Write([]byte("last words")); err != nil {
				t.Fatal(err)
			}
			if reset {
				_ = a.(interface{ SetLinger(int) error }).SetLinger(0)
			}
			a.Close()
			err := <-done
			if want := map[bool]error{false: io.EOF, true: syscall.ECONNRESET}[reset]; !errors.Is(err, want) {
				t.Fatalf("round %d: %v, want %v", i, err, want)
			}
			if n, err := b.Read(make([]byte, 1)); n != 0 || errors.Is(err, rawio.ErrNotYet) || isTimeout(err) {
				t.Fatalf("round %d: Read afterwards: %d, %v: the deadline was left behind", i, n, err)
			}
		}
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// TestAwaitReadsNothingInVain: after a read that had room for more, what comes
// is another step's.
func TestAwaitReadsNothingInVain(t *testing.T) {
	a, b := pair(t)
	now, p := b.(rawio.Now), make([]byte, 100)
	if _, err := a.Write([]byte("one")); err != nil {
		t.Fatal(err)
	}
	var steps []string
	err := now.Await(func() bool {
		var got string
		for {
			n, err := now.ReadNow(p)
			got += string(p[:n])
			if err == rawio.ErrNotYet {
				break
			}
			if err != nil {
				t.Error(err)
				return true
			}
			if got == "one" {
				_, _ = a.Write([]byte("two")) // it is there at once
			}
		}
		if got != "" { // the first step may come before anything
			steps = append(steps, got)
		}
		return got == "two"
	})
	if want := "one,two"; err != nil || strings.Join(steps, ",") != want {
		t.Errorf("steps %q, %v; want %q", steps, err, want)
	}
}

// TestAwaitUntilClosed: whoever waits is told.
func TestAwaitUntilClosed(t *testing.T) {
	_, b := pair(t)
	waiting := make(chan struct{}, 1)
	go func() {
		<-waiting
		b.Close()
	}()
	err := b.(rawio.Now).Await(func() bool {
		select {
		case waiting <- struct{}{}:
		default:
		}
		return false
	})
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("Await: %v", err)
	}
	if err := b.(rawio.Now).Await(func() bool { t.Error("a step"); return true }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Await after Close: %v", err)
	}
}

// TestAwaitLeavesNothing: no goroutine and no descriptor when nobody waits.
func TestAwaitLeavesNothing(t *testing.T) {
	before, files := runtime.NumGoroutine(), openFiles(t)
	conns := make([][2]net.Conn, 50)
	for i := range conns {
		a, b := pair(t)
		conns[i] = [2]net.Conn{a, b}
	}
	done := make(chan struct{})
	for _, c := range conns {
		go func() {
			_, _, _ = gather(c[1], 100)
			done <- struct{}{}
		}()
	}
	for _, c := range conns {
		c[0].Close()
	}
	for _, c := range conns {
		<-done
		c[1].Close()
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before || openFiles(t) > files; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before; %d descriptors, %d before", runtime.NumGoroutine(), before, openFiles(t), files)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestAwaitDoesNotAllocate(t *testing.T) {
	a, b := pair(t)
	now, p := b.(rawio.Now), make([]byte, 400)
	message := make([]byte, 300)
	steps, total := 0, 0
	turn := make(chan struct{})
	go func() {
		_ = now.Await(func() bool {
			n, _ := now.ReadNow(p)
			if total += n; n > 0 {
				_, _ = now.ReadNow(p)
				steps++
				turn <- struct{}{}
			}
			return total == 201*300
		})
		close(turn)
	}()
	if n := testing.AllocsPerRun(200, func() {
		if _, err := a.Write(message); err != nil {
			t.Fatal(err)
		}
		<-turn
	}); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
	if <-turn; steps != 201 {
		t.Errorf("%d steps for 201 messages", steps)
	}
}
