//go:build !linux || 386

package rawio

import "net"

// Wrap returns c.
func Wrap(c net.Conn) net.Conn { return c }
