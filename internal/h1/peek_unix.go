//go:build unix

package h1

import (
	"syscall"

	"github.com/expediterhq/expediter/internal/rawio"
)

// peeker looks at what has come on a connection without taking it.
type peeker struct {
	rc   syscall.RawConn
	look func(fd uintptr) bool
	buf  [1]byte
	err  error
}

func (p *peeker) init(rc syscall.RawConn) {
	p.rc = rc
	p.look = func(fd uintptr) bool {
		_, p.err = rawio.Peek(fd, p.buf[:])
		return true
	}
}

func (p *peeker) quiet() bool {
	if p.rc == nil {
		return true
	}
	if err := p.rc.Read(p.look); err != nil {
		return false
	}
	return p.err == syscall.EAGAIN || p.err == syscall.EINTR
}
