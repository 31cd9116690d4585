//go:build linux && !386

package rawio

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Conn is a TCP connection. Reads and writes may be concurrent with each
// other, and with Close and deadlines.
type Conn struct {
	*net.TCPConn
	rc    syscall.RawConn
	read  transfer
	write transfer
	wait  await
}

// transfer is one direction.
type transfer struct {
	mu    sync.Mutex
	call  func(fd uintptr, p []byte) (int, syscall.Errno)
	p     []byte // not empty
	n     int
	errno syscall.Errno
	try   func(fd uintptr) bool // attempt, bound once
}

// Wrap returns c with its own Read and Write if it is a TCP connection, else c.
func Wrap(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn) // and not one that is wrapped already
	if !ok {
		return c
	}
	rc, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	w := &Conn{TCPConn: tcp, rc: rc}
	w.read.init(recv)
	w.write.init(send)
	w.wait.try = w.wait.attempt
	return w
}

func (t *transfer) init(call func(fd uintptr, p []byte) (int, syscall.Errno)) {
	t.call, t.try = call, t.attempt
}

// attempt makes the system call and reports whether there is an outcome; if
// not, the socket was not ready.
func (t *transfer) attempt(fd uintptr) bool {
	for {
		n, errno := t.call(fd, t.p)
		switch errno {
		case 0:
			t.n, t.errno = n, 0
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.n, t.errno = 0, errno
			return true
		}
	}
}

// Read reads what has come, waiting only if nothing has.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t := &c.read
	t.mu.Lock()
	defer t.mu.Unlock()
	t.p = p[:min(len(p), most)]
	err := c.rc.Read(t.try)
	t.p = nil
	switch {
	case err != nil:
		return 0, err
	case t.errno != 0:
		return 0, c.failed("read", t.errno)
	case t.n == 0:
		return 0, io.EOF
	}
	return t.n, nil
}

// Write writes all of p.
func (c *Conn) Write(p []byte) (written int, err error) {
	t := &c.write
	t.mu.Lock()
	defer t.mu.Unlock()
	for written < len(p) {
		t.p = p[written:min(len(p), written+most)]
		err := c.rc.Write(t.try)
		t.p = nil
		switch {
		case err != nil:
			return written, err
		case t.errno != 0:
			return written, c.failed("write", t.errno)
		}
		written += t.n
	}
	return written, nil
}

// most bounds the bytes, and by them the time, of one system call, during which
// a thread of the scheduler's is held.
const most = 64 << 10

func (c *Conn) failed(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
}
