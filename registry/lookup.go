package registry

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// errNoAddress is the reason of a lookup that finds nothing.
var errNoAddress = errors.New("has no address")

// notAllowed is the reason of a lookup that finds nothing of use.
func notAllowed(addrs []netip.Addr) error {
	return fmt.Errorf("has no address that is allowed, only such as %v", addrs[0])
}

// lookupError says why a name gave no addresses.
type lookupError struct {
	host string
	err  error
}

func (e *lookupError) Error() string {
	return "registry: dns: " + e.host + ": " + e.reason()
}

// reason is the cause without the name, which errors of the net package
// repeat.
func (e *lookupError) reason() string {
	var d *net.DNSError
	if !errors.As(e.err, &d) {
		return e.err.Error()
	}
	if d.Server != "" {
		return d.Err + ", asked " + d.Server
	}
	return d.Err
}

func (e *lookupError) Unwrap() error { return e.err }
