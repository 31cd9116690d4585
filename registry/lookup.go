package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// resolve returns the addresses that replicas may have. Without any the error says
// why; with some it may still say that a family could not be asked for, whose
// members are among them.
func (d *DNS) resolve(ctx context.Context) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	addrs, err := d.lookup(ctx)
	if err != nil {
		err = &lookupError{d.cfg.Host, err}
	}
	if len(addrs) == 0 {
		return nil, cmp.Or[error](err, &lookupError{d.cfg.Host, errNoAddress})
	}
	usable := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		if d.allowed(a) && !slices.Contains(usable, a) {
			usable = append(usable, a)
		}
	}
	if len(usable) == 0 {
		return nil, &lookupError{d.cfg.Host, notAllowed(addrs)}
	}
	return usable, err
}

// lookup asks for all addresses of the name, and again for those of a family
// that members have and the answer has not: Go's resolver, and others, leave
// out the half that failed without saying so. Whoever walks a search list may
// find that family under another name: only members are taken from the second
// answer, and all if there is none.
func (d *DNS) lookup(ctx context.Context) (addrs []netip.Addr, err error) {
	addrs, err = d.cfg.Resolver.LookupNetIP(ctx, "ip", d.cfg.Host)
	if err != nil || len(addrs) == 0 {
		return nil, err
	}
	addrs = unmap(addrs)
	known := d.addresses()
	for _, f := range families {
		if !slices.ContainsFunc(known, f.has) || slices.ContainsFunc(addrs, f.has) {
			continue
		}
		rest, failed := d.cfg.Resolver.LookupNetIP(ctx, f.network, d.cfg.Host)
		unanswered := failed != nil && !notFound(failed)
		if unanswered {
			err = failed
		}
		rest = unmap(rest)
		for _, a := range known {
			if f.has(a) && (unanswered || slices.Contains(rest, a)) {
				addrs = append(addrs, a)
			}
		}
	}
	return addrs, err
}

// families are the two kinds of addresses, each with the question for it.
var families = [...]struct {
	network string
	has     func(netip.Addr) bool
}{{"ip4", netip.Addr.Is4}, {"ip6", netip.Addr.Is6}}

// addresses returns those of the members.
func (d *DNS) addresses() []netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	addrs := make([]netip.Addr, 0, len(d.members))
	for _, m := range d.members {
		addrs = append(addrs, m.addr)
	}
	return addrs
}

func unmap(addrs []netip.Addr) []netip.Addr {
	out := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		out[i] = a.Unmap()
	}
	return out
}

// notFound reports whether err is an answer: there is no such address.
func notFound(err error) bool {
	var d *net.DNSError
	return errors.As(err, &d) && d.IsNotFound
}

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
