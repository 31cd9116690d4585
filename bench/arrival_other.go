//go:build !linux || !(amd64 || arm64)

package main

import (
	"net"
	"time"
)

// arrivals is a connection that knows when it was read last.
type arrivals struct {
	*net.TCPConn
	last time.Time
}

func watchArrivals(c *net.TCPConn) (net.Conn, error) { return &arrivals{TCPConn: c}, nil }

func (a *arrivals) Read(p []byte) (int, error) {
	n, err := a.TCPConn.Read(p)
	a.last = time.Now()
	return n, err
}
