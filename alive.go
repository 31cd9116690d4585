package expediter

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// aliveTime is how long a replica has to accept a connection.
const aliveTime = 250 * time.Millisecond

// alive reports whether the replica accepts connections. known is false where
// the transport cannot dial for us, and where a connection fails for another
// reason than that nobody is there.
func alive(ctx context.Context, p *pool, r *registry.Replica) (alive, known bool) {
	dial := dialer(p.Transport)
	if dial == nil {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	c, err := dial(ctx, "tcp", hostPort(r.Target().Scheme, r.Target().Host))
	if err != nil {
		return false, nobody(err)
	}
	c.Close()
	return true, true
}

// nobody reports whether a connection failed since nobody is there to take it.
func nobody(err error) bool {
	var name *net.DNSError
	return isAny(err, refusals()) || errors.As(err, &name) && name.IsNotFound
}

// isAny reports whether err is one of those.
func isAny(err error, of []error) bool {
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

// dialer returns how a transport dials, nil if it does not say.
func dialer(t http.RoundTripper) func(ctx context.Context, network, address string) (net.Conn, error) {
	switch t := t.(type) {
	case interface {
		Dial(ctx context.Context, network, address string) (net.Conn, error)
	}:
		return t.Dial
	case *http.Transport:
		return t.DialContext
	}
	return nil
}

// hostPort adds the scheme's port to a host without one.
func hostPort(scheme, host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	if scheme == "https" {
		return net.JoinHostPort(host, "443")
	}
	return net.JoinHostPort(host, "80")
}

// chance reports whether the loss of a kept connection says nothing about the
// request that was on it.
func (q *request) chance(f *failure, who string, now time.Time) bool {
	if f.unheard {
		return true
	}
	if alive, known := alive(q.ctx, q.pool, q.replica); known {
		return alive
	}
	return q.h.poison.suspect(q.size.print, who, now)
}
