package vllm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// ErrAddress is returned for a connection to an address no replica may have.
var ErrAddress = errors.New("vllm: address is not allowed for a replica")

// Dialer connects to replicas. It checks each address after names were
// resolved and just before connecting, so that a name cannot point somewhere
// else between a check and its use. It is safe for concurrent use.
type Dialer struct {
	// Allow lists the networks replicas may be in. If empty, any address
	// that is not refused anyway: link-local, multicast and unspecified
	// addresses and those of cloud metadata services never are allowed,
	// unless Allow lists exactly that address.
	Allow []netip.Prefix

	Timeout time.Duration // for one connection. If zero, 3 s
}

// DialContext connects to a TCP address. The error is ErrAddress if no
// address of the host may be used.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	n := net.Dialer{
		Timeout: d.Timeout, KeepAlive: 15 * time.Second,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return d.check(network, address)
		},
	}
	if n.Timeout == 0 {
		n.Timeout = 3 * time.Second
	}
	conn, err := n.DialContext(ctx, network, address)
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}

func (d *Dialer) check(network, address string) error {
	if network != "tcp4" && network != "tcp6" && network != "tcp" {
		return refusal{}
	}
	a, err := netip.ParseAddrPort(address)
	if err != nil || !d.Allowed(a.Addr()) {
		return refusal{}
	}
	return nil
}

// dialError names the package for those who see the error of a transport as
// it is; errors that do so themselves wrap what is inside.
type dialError struct{ inside error }

func (e *dialError) Error() string { return "vllm: " + e.inside.Error() }

func (e *dialError) Unwrap() error { return e.inside }

// refusal is ErrAddress in the middle of another error's text.
type refusal struct{}

func (refusal) Error() string { return strings.TrimPrefix(ErrAddress.Error(), "vllm: ") }

func (refusal) Unwrap() error { return ErrAddress }

// Allowed reports whether a replica may have the address.
func (d *Dialer) Allowed(a netip.Addr) bool {
	a = plainAddr(a)
	inside := len(d.Allow) == 0
	for _, p := range d.Allow {
		if !p.Contains(a) {
			continue
		}
		if p.IsSingleIP() {
			return true
		}
		inside = true
	}
	return inside && a.IsValid() && !forbidden(a)
}

// plainAddr strips zones and the ways of writing an IPv4 address as IPv6.
func plainAddr(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// metadata are the addresses of cloud metadata services outside of the
// link-local networks: AWS, Alibaba Cloud, Azure.
var metadata = [...]netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"),
}

func forbidden(a netip.Addr) bool {
	for _, m := range metadata {
		if a == m {
			return true
		}
	}
	return a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || a.IsInterfaceLocalMulticast() ||
		a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 240)
}
