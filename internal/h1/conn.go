package h1

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/expediterhq/expediter/internal/rawio"
)

// conn is one connection to a replica.
type conn struct {
	net.Conn // with TLS, where there is
	key      address
	peek     peeker
	secure   bool // Conn is a *tls.Conn
	reused   bool
	since    time.Time // when it was kept
}

func newConn(key address, c net.Conn) *conn {
	nc := &conn{Conn: rawio.Wrap(c), key: key}
	raw := c
	if t, ok := c.(*tls.Conn); ok {
		raw, nc.secure = t.NetConn(), true
	}
	if s, ok := raw.(syscall.Conn); ok {
		if rc, err := s.SyscallConn(); err == nil {
			nc.peek.init(rc)
		}
	}
	return nc
}

// abort breaks the connection off under a request. The other side is told even
// if somebody is within the poller's hook, which Close waits for.
func (c *conn) abort() {
	if t, ok := c.Conn.(interface{ CloseWrite() error }); ok && !c.secure {
		_ = t.CloseWrite()
	}
	c.Close()
}

// quiet reports whether nothing has come since the last answer, not even the
// end: what comes unasked cannot be the answer to the next request. Where the
// system cannot be asked the next request will tell.
func (c *conn) quiet() bool { return c.peek.quiet() && (!c.secure || c.drained()) }

// drained reports whether TLS holds nothing that it read together with the last
// answer. After its deadline a Read takes nothing more from the socket.
func (c *conn) drained() bool {
	if c.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil
}
