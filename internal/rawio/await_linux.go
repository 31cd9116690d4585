//go:build linux && !386

package rawio

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// await is the part of a Conn that is used by Await.
type await struct {
	step    func() (done bool)
	try     func(fd uintptr) bool // bound once
	fd      uintptr
	drained bool // what had come when step was called is read
	unsure  bool // more may come without notice: the end
}

// Await is as in Now. Between two calls of step it stays within the poller's
// hook, which tells of everything that comes after a read, but for an end that
// has come together with what was read. hangup tells of that. So a read that
// had room for more has read everything, and need not be followed by one that
// finds nothing.
func (c *Conn) Await(step func() (done bool)) error {
	a := &c.wait
	a.step = step
	h := hangups.watch(c)
	defer func() {
		a.step = nil
		h.leave()
	}()
	a.unsure = h == nil
	for {
		err := c.rc.Read(a.try)
		if !h.came() || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		a.unsure = true
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
}

func (a *await) attempt(fd uintptr) bool {
	a.fd, a.drained = fd, false
	return a.step()
}

// ReadNow is as in Now.
func (c *Conn) ReadNow(p []byte) (int, error) {
	a := &c.wait
	if a.drained || len(p) == 0 {
		return 0, ErrNotYet
	}
	p = p[:min(len(p), most)]
	for {
		n, errno := recv(a.fd, p)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return 0, ErrNotYet
		case errno != 0:
			return 0, c.failed("read", errno)
		case n == 0:
			return 0, io.EOF
		}
		a.drained = n < len(p) && !a.unsure
		return n, nil
	}
}
