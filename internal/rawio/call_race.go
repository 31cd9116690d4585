//go:build linux && race && !386

package rawio

import "syscall"

// Under the race detector the calls are those of package syscall, which tell it
// what happened before what.

func recv(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), p)
	return n, errno(err)
}

func peek(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, err := syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n, errno(err)
}

func send(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Write(int(fd), p)
	return n, errno(err)
}

func errno(err error) syscall.Errno {
	e, _ := err.(syscall.Errno) // what package syscall returns, or nil
	return e
}
