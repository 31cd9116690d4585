package sse

import (
	"context"
	"net"
	"net/http"
	"reflect"
	"strconv"
)

// ConnContext belongs into http.Server.ConnContext. With it a Writer knows
// the connection below an HTTP/1.1 response and, once net/http has sent the
// head, writes the chunks of the body there itself, one system call each and
// none of the layers between. Everything else stays net/http's: the head, the
// end of the body, the watch for a client that leaves, the next request on
// the connection, Shutdown. Where a middleware wraps the ResponseWriter, on
// HTTP/2 and HTTP/1.0 nothing changes.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

type connKey struct{}

// direct writes chunks (RFC 9112, section 7.1) to the connection itself. It
// may do so after the first flush: then the head is out, and net/http holds
// nothing back that it would have to come after.
type direct struct {
	conn  net.Conn // nil: not possible
	on    bool     // the head is out
	frame []byte
}

// maxFrame is how much is copied so as to go out together with its framing;
// what is larger goes out in a vector of three.
const maxFrame = 4 << 10

// underneath returns the connection to which chunks of the response may be
// written, or nil.
func underneath(w http.ResponseWriter, r *http.Request) net.Conn {
	if r == nil || r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.Method == http.MethodHead {
		return nil
	}
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	if c == nil || reflect.TypeOf(w).String() != "*http.response" {
		return nil
	}
	return c
}

// start is called after the first flush. A response of known length, or one
// encoded by someone else, has no chunks.
func (d *direct) start(h http.Header) {
	d.on = d.conn != nil && h["Content-Length"] == nil && h["Transfer-Encoding"] == nil && h["Trailer"] == nil
	if !d.on {
		d.conn = nil
	}
}

// write sends p as one chunk.
func (d *direct) write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	f := strconv.AppendInt(d.frame[:0], int64(len(p)), 16)
	f = append(f, "\r\n"...)
	head := len(f)
	if len(p) > maxFrame {
		d.frame = f
		parts := net.Buffers{f, p, []byte("\r\n")}
		n, err := parts.WriteTo(d.conn)
		return min(max(int(n)-head, 0), len(p)), err
	}
	f = append(append(f, p...), "\r\n"...)
	d.frame = f
	n, err := d.conn.Write(f)
	return min(max(n-head, 0), len(p)), err
}
