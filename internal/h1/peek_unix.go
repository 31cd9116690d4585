//go:build unix

package h1

import "syscall"

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
		_, _, p.err = syscall.Recvfrom(int(fd), p.buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
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
