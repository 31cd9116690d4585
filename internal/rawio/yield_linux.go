//go:build linux && !386

package rawio

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// turns are what Yield waits with, as many as can be of use at a time. The channel
// is made with the process, so that it belongs to nobody's synctest bubble.
var (
	turns     = make(chan *turn, 16)
	makeTurns = sync.OnceFunc(func() {
		for range cap(turns) {
			if t := newTurn(); t != nil {
				turns <- t
			}
		}
	})
)

// Yield lets the caller go on after what waits for the network and is ready by
// now: streams whose next event has come. runtime.Gosched alone does not look at
// the network. The processor is not given to other processes.
func Yield() {
	makeTurns()
	select {
	case t := <-turns:
		t.wait()
		turns <- t
	default: // many yield already
	}
	runtime.Gosched() // the poller makes runnable in reverse order
}

// turn is an eventfd, which makes its owner runnable by way of the poller.
type turn struct {
	file *os.File
	conn syscall.RawConn
	told bool
	try  func(fd uintptr) bool // tell, bound once
}

func newTurn() *turn {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil
	}
	t := &turn{file: os.NewFile(fd, "eventfd")}
	var err error
	if t.conn, err = t.file.SyscallConn(); err != nil {
		_ = t.file.Close()
		return nil
	}
	t.try = t.tell
	return t
}

func (t *turn) wait() {
	t.told = false
	_ = t.conn.Read(t.try) // without a poller there is nothing to wait for
}

// one is what is added to the eventfd. It is never read: each write is an edge
// to the poller, and 2^64 are not reached.
var one = uint64(1)

// tell makes the eventfd ready and waits for the poller to say so.
func (t *turn) tell(fd uintptr) bool {
	if t.told {
		return true
	}
	t.told = true
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&one)), 8)
	return errno != 0 || n != 8
}
