package expediter

import (
	"syscall"
	"testing"
)

func TestWinsockErrnos(t *testing.T) {
	for _, tt := range []struct {
		errno         syscall.Errno
		nobody, short bool
	}{
		{10061, true, false},  // WSAECONNREFUSED
		{10065, true, false},  // WSAEHOSTUNREACH
		{10051, true, false},  // WSAENETUNREACH
		{10024, false, true},  // WSAEMFILE
		{10055, false, true},  // WSAENOBUFS
		{10049, false, true},  // WSAEADDRNOTAVAIL
		{10060, false, false}, // WSAETIMEDOUT
		{10054, false, false}, // WSAECONNRESET
	} {
		err := failedCall("dial", "connectex", tt.errno)
		if nobody(err) != tt.nobody || short(err) != tt.short {
			t.Errorf("%d: nobody = %t, short = %t, want %t and %t", tt.errno, nobody(err), short(err), tt.nobody, tt.short)
		}
	}
}
