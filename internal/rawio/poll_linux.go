//go:build linux && !386

package rawio

import (
	"os"
	"syscall"
	"time"
)

// poll is an epoll that Go's poller watches.
type poll struct {
	file *os.File
	conn syscall.RawConn
	fd   int // open until run closes the file, after the last use
}

// newPoll returns nil where there are no more descriptors.
func newPoll() *poll {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	if syscall.SetNonblock(fd, true) != nil { // by which os knows that it can be polled
		_ = syscall.Close(fd)
		return nil
	}
	p := &poll{file: os.NewFile(uintptr(fd), "epoll"), fd: fd}
	p.conn, err = p.file.SyscallConn()
	if err == nil {
		err = p.file.SetReadDeadline(time.Time{}) // fails where Go's poller has not taken it
	}
	if err != nil {
		_ = p.file.Close()
		return nil
	}
	return p
}

// ready fills events with those that there are now.
func (p *poll) ready(fd uintptr, events []syscall.EpollEvent) int {
	for {
		n, err := syscall.EpollWait(int(fd), events, 0)
		if err != syscall.EINTR {
			return max(n, 0)
		}
	}
}

// ends are the other side's end and every error, each told once.
const ends = syscall.EPOLLRDHUP | 1<<31 // EPOLLET, which is negative in syscall

// add has the end of c come with id.
func (p *poll) add(c *Conn, id uint64) (ok bool) {
	err := c.rc.Control(func(fd uintptr) {
		e := syscall.EpollEvent{Events: ends, Fd: int32(id), Pad: int32(id >> 32)}
		ok = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, int(fd), &e) == nil
	})
	return err == nil && ok
}

// drop ends that. A connection that was closed is no longer in it.
func (p *poll) drop(c *Conn) {
	_ = c.rc.Control(func(fd uintptr) {
		_ = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_DEL, int(fd), nil)
	})
}

func id(e syscall.EpollEvent) uint64 { return uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32 }
