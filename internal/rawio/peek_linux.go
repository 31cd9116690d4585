//go:build linux && !386

package rawio

// Peek looks at what has come on a socket without taking or waiting for it.
// The error is EAGAIN if nothing has, not even the end. p must not be empty.
func Peek(fd uintptr, p []byte) (int, error) {
	n, errno := peek(fd, p)
	if errno != 0 {
		return 0, errno
	}
	return n, nil
}
