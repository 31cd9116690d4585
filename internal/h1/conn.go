package h1

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
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
	aborted  atomic.Bool
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

// abort breaks the connection off under a request. Close alone would not do
// where somebody is within the poller's hook: it waits for them. So the other
// side is told first, and what it answers to that is not taken for the answer.
func (c *conn) abort() {
	c.aborted.Store(true)
	if _, ok := c.Conn.(rawio.Now); ok {
		_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite() // Close follows
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
