package sse

import (
	"context"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"sync"

	"github.com/expediterhq/expediter/internal/rawio"
)

// ConnContext belongs into http.Server.ConnContext. With it a Writer knows
// the connection below an HTTP/1.1 response and, once net/http has sent the
// head with the first of the body, writes the chunks that follow there itself,
// one system call each and none of the layers between. Everything else stays
// net/http's: the head, the end of the body, the watch for a client that
// leaves, the next request on the connection, Shutdown. Where a middleware
// wraps the ResponseWriter, on HTTP/2 and HTTP/1.0 nothing changes. A server
// with a ConnContext of its own calls this one in it.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Listener returns l with connections whose reads and writes do not trouble
// Go's scheduler, which on Linux saves a server of streams much of its
// processor time. It is for http.Server.Serve and ServeTLS, and does nothing
// for connections other than TCP.
func Listener(l net.Listener) net.Listener { return rawio.Listener(l) }

type connKey struct{}

// direct writes chunks (RFC 9112, section 7.1) to the connection itself. It
// may do so once something was written and flushed: then the head is out,
// net/http has agreed that there is a body, and holds nothing back that chunks
// would have to come after.
type direct struct {
	conn  net.Conn // nil: not possible
	wrote bool     // net/http has taken a part of the body
	on    bool     // the head is out
}

// frames and largeFrames are memory for chunks. No stream keeps any between two
// of them: what all use in turn is in the processor's cache, and theirs would
// not be.
var (
	frames      = sync.Pool{New: func() any { return newFrame(smallFrame) }}
	largeFrames = sync.Pool{New: func() any { return newFrame(maxWrite) }}
)

const smallFrame = 4 << 10 // bytes of a chunk: nearly all are smaller

func newFrame(chunk int) *[]byte {
	b := make([]byte, 0, chunk+32)
	return &b
}

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
	return rawio.Wrap(c)
}

// start is called after each flush by net/http. A response of known length, or
// one encoded by someone else, has no chunks.
func (d *direct) start(h http.Header) {
	if !d.wrote {
		return
	}
	d.on = d.conn != nil && h["Content-Length"] == nil && h["Transfer-Encoding"] == nil && h["Trailer"] == nil
	if !d.on {
		d.conn = nil
	}
}

// write sends p as one chunk. If that fails the connection is closed, since
// net/http does not know: it would end the body as if it were complete.
func (d *direct) write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := d.chunk(p)
	if err != nil {
		_ = d.conn.Close() // the write's error is the one that counts
	}
	return n, err
}

// chunk puts p and its framing together, so that they go out as one.
func (d *direct) chunk(p []byte) (int, error) {
	pool := &frames
	if len(p) > smallFrame {
		pool = &largeFrames
	}
	room := pool.Get().(*[]byte)
	defer pool.Put(room)
	f := strconv.AppendInt((*room)[:0], int64(len(p)), 16)
	f = append(f, "\r\n"...)
	head := len(f)
	f = append(append(f, p...), "\r\n"...)
	*room = f
	n, err := d.conn.Write(f)
	return min(max(n-head, 0), len(p)), err
}
