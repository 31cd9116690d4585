package expediter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/expediterhq/expediter/internal/h1"
)

// failedCall is what package net makes of a system call that failed.
func failedCall(op, call string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(call, err)}
}

// TestLostConnections: which errors mean that the connection was lost, that an
// answer had begun, and that this machine lacked something.
func TestLostConnections(t *testing.T) {
	for _, tt := range []struct {
		name              string
		err               error
		short, begun, cut bool
	}{
		{"reset", failedCall("read", "read", syscall.ECONNRESET), false, false, true},
		{"refused", failedCall("dial", "connect", syscall.ECONNREFUSED), false, false, true},
		{"closed", io.EOF, false, false, true},
		{"broken off", io.ErrUnexpectedEOF, false, false, true},
		{"of no kind", errors.New("http: server closed idle connection"), false, false, true},

		{"not acknowledged by the other side", failedCall("read", "read", syscall.ETIMEDOUT), false, false, true},
		{"too slow", failedCall("read", "read", os.ErrDeadlineExceeded), false, false, false},
		{"too slow, bare", os.ErrDeadlineExceeded, false, false, false},
		{"too slow, by a context", context.DeadlineExceeded, false, false, false},

		{"no descriptors", failedCall("dial", "socket", syscall.EMFILE), true, false, true},
		{"no descriptors, wrapped", fmt.Errorf("vllm: dial: %w", failedCall("dial", "socket", syscall.EMFILE)), true, false, true},
		{"no descriptors on the machine", failedCall("dial", "socket", syscall.ENFILE), true, false, true},
		{"no ports", failedCall("dial", "connect", syscall.EADDRNOTAVAIL), true, false, true},
		{"no buffers", failedCall("dial", "connect", syscall.ENOBUFS), true, false, true},
		{"no memory", failedCall("dial", "connect", syscall.ENOMEM), true, false, true},

		{"no ports, with an address", &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, Err: syscall.EADDRNOTAVAIL}, true, false, true},
		{"no such address on this machine", &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv6loopback}, Err: syscall.EADDRNOTAVAIL}, false, false, true},

		{"no chunks", fmt.Errorf("body: %w", h1.ErrFraming), false, false, false},
		{"no HTTP, as net/http says it", errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0"`), false, false, false},
		{"no head", &h1.HeadError{Err: io.ErrUnexpectedEOF}, false, false, true},
		{"half a head", &h1.HeadError{Begun: true, Err: io.ErrUnexpectedEOF}, false, true, true},
		{"half a head, wrapped", fmt.Errorf("attempt: %w", &h1.HeadError{Begun: true, Err: io.ErrUnexpectedEOF}), false, true, true},
		{"half a head, then a reset", &h1.HeadError{Begun: true, Err: failedCall("read", "read", syscall.ECONNRESET)}, false, true, true},
		{"no HTTP", &h1.HeadError{Begun: true, Malformed: true, Err: errors.New("malformed HTTP version")}, false, true, false},
		{"no head in time", &h1.HeadError{Err: failedCall("read", "read", os.ErrDeadlineExceeded)}, false, false, false},
		{"half a head in time", &h1.HeadError{Begun: true, Err: failedCall("read", "read", os.ErrDeadlineExceeded)}, false, true, false},
		{"no head, not acknowledged", &h1.HeadError{Err: failedCall("read", "read", syscall.ETIMEDOUT)}, false, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := short(tt.err); got != tt.short {
				t.Errorf("short = %t, want %t", got, tt.short)
			}
			if got := begun(tt.err); got != tt.begun {
				t.Errorf("begun = %t, want %t", got, tt.begun)
			}
			if got := cut(tt.err); got != tt.cut {
				t.Errorf("cut = %t, want %t", got, tt.cut)
			}
		})
	}
}
