//go:build unix

package h1_test

import "syscall"

// arrived reports whether anything has come on the socket, its end included.
func arrived(fd uintptr) bool {
	_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err != syscall.EAGAIN
}
