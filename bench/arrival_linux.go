//go:build linux && (amd64 || arm64)

package main

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// arrivals is a connection that knows when what was read last had come to its
// socket, by the system's own clock: before the reader was woken up.
type arrivals struct {
	*net.TCPConn
	raw  syscall.RawConn
	last time.Time
	try  func(fd uintptr) bool // receive, bound once

	p   []byte
	n   int
	err error
	oob [64]byte
}

// watchArrivals returns c as arrivals.
func watchArrivals(c *net.TCPConn) (net.Conn, error) {
	a := &arrivals{TCPConn: c}
	a.try = a.receive
	var err error
	if a.raw, err = c.SyscallConn(); err != nil {
		return nil, err
	}
	failed := a.raw.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1))
	})
	if failed != nil {
		return nil, failed
	}
	return a, err
}

func (a *arrivals) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	a.p = p
	if err := a.raw.Read(a.try); err != nil {
		return 0, err
	}
	if a.n == 0 && a.err == nil {
		return 0, io.EOF
	}
	return max(a.n, 0), a.err
}

// receive reads once, and reports whether there is an outcome.
func (a *arrivals) receive(fd uintptr) bool {
	n, control, _, _, err := syscall.Recvmsg(int(fd), a.p, a.oob[:], syscall.MSG_DONTWAIT)
	for err == syscall.EINTR {
		n, control, _, _, err = syscall.Recvmsg(int(fd), a.p, a.oob[:], syscall.MSG_DONTWAIT)
	}
	if err == syscall.EAGAIN {
		return false
	}
	a.n, a.err = n, os.NewSyscallError("recvmsg", err)
	a.last = arrived(a.oob[:control])
	return true
}

// arrived finds the time of arrival among what the system says of a message.
func arrived(control []byte) time.Time {
	const header = syscall.SizeofCmsghdr
	if len(control) < header+16 || binary.NativeEndian.Uint32(control[header-4:]) != syscall.SO_TIMESTAMPNS {
		return time.Now()
	}
	seconds, ns := binary.NativeEndian.Uint64(control[header:]), binary.NativeEndian.Uint64(control[header+8:])
	return time.Unix(int64(seconds), int64(ns))
}
