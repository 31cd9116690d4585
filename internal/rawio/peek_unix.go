//go:build unix && (!linux || 386)

package rawio

import "syscall"

// Peek looks at what has come on a socket without taking or waiting for it.
// The error is EAGAIN if nothing has, not even the end. p must not be empty.
func Peek(fd uintptr, p []byte) (int, error) {
	n, _, err := syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n, err
}
