package expediter

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// TestNobody: which errors of a dial mean that nobody is there, and not that this
// machine lacks something or that it takes long.
func TestNobody(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"refused", failedCall("dial", "connect", syscall.ECONNREFUSED), true},
		{"refused, wrapped", fmt.Errorf("vllm: dial: %w", failedCall("dial", "connect", syscall.ECONNREFUSED)), true},
		{"no such host", failedCall("dial", "connect", syscall.EHOSTUNREACH), true},
		{"no such network", failedCall("dial", "connect", syscall.ENETUNREACH), true},
		{"no such name", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, true},
		{"no name server", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}, false},
		{"no descriptors", failedCall("dial", "socket", syscall.EMFILE), false},
		{"no ports", failedCall("dial", "connect", syscall.EADDRNOTAVAIL), false},
		{"not in time", failedCall("dial", "connect", os.ErrDeadlineExceeded), false},
		{"not acknowledged", failedCall("dial", "connect", syscall.ETIMEDOUT), false},
		{"of no kind", errors.New("socks: general failure"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := nobody(tt.err); got != tt.want {
				t.Errorf("nobody(%v) = %t, want %t", tt.err, got, tt.want)
			}
		})
	}
}
