//go:build linux && !race && !386

package rawio

import (
	"syscall"
	"unsafe"
)

// Peek looks at what has come on a socket without taking or waiting for it.
// The error is EAGAIN if nothing has, not even the end. p must not be empty.
func Peek(fd uintptr, p []byte) (int, error) {
	// p is not empty, and its memory is kept alive by the call.
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
