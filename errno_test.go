package expediter

import (
	"net"
	"testing"
)

// TestErrnos: what this platform's calls fail with is told apart.
func TestErrnos(t *testing.T) {
	for _, tt := range []struct {
		name          string
		errs          []error
		nobody, short bool
	}{
		{"refusals", refusals(), true, false},
		{"shortages", shortages(), false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, e := range tt.errs {
				err := failedCall("dial", "connect", e)
				if got := nobody(err); got != tt.nobody {
					t.Errorf("nobody(%v) = %t, want %t", err, got, tt.nobody)
				}
				if got := short(err); got != tt.short {
					t.Errorf("short(%v) = %t, want %t", err, got, tt.short)
				}
			}
		})
	}
	elsewhere := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv6loopback}, Err: noAddress}
	if short(elsewhere) {
		t.Errorf("short(%v) = true, want false: the address is this machine's own", elsewhere)
	}
}

// TestRefusedForReal: a port that nobody listens on.
func TestRefusedForReal(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
		t.Skip("another process has taken the port")
	}
	if !nobody(err) || short(err) {
		t.Errorf("%v: nobody = %t, short = %t, want true and false", err, nobody(err), short(err))
	}
}
