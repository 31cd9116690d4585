package h1

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/expediterhq/expediter/internal/rawio"
)

// body reads an answer's body from its connection, whatever its framing. It
// is for one goroutine.
type body struct {
	x    *exchange
	br   *bufio.Reader // holds what came with the head; nil once that is taken
	keep bool          // the connection may be kept after the end

	chunked bool
	chunks  chunks
	left    int64 // bytes until the end; negative: until the connection ends

	now   rawio.Now // while Await is waiting
	letGo func()    // what is to be done after that; may be nil

	late bool // read once after the connection was aborted

	err error // sticky
}

// body decides where an answer's body ends.
func (x *exchange) body(resp *http.Response, method string, br *bufio.Reader) io.ReadCloser {
	b := &body{x: x, br: br, keep: !resp.Close && resp.ProtoAtLeast(1, 1), left: resp.ContentLength}
	b.chunked = len(resp.TransferEncoding) > 0 // ReadResponse knows no other
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		b.keep, b.left, b.chunked = false, -1, false
	case method == http.MethodHead, resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified,
		!b.chunked && resp.ContentLength == 0:
		b.end(br.Buffered() == 0)
		return b
	}
	if b.left < 0 && !b.chunked {
		b.keep = false
	}
	return b
}

// Read reads what has come, and waits only if nothing has. An answer that
// breaks off ends with io.ErrUnexpectedEOF or the connection's error.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	for {
		n, err := b.raw(p)
		if err == rawio.ErrNotYet {
			return 0, err
		}
		n, ended, extra, bad := b.unframe(p[:n])
		switch {
		case bad != nil:
			b.fail(bad)
		case ended && b.chunked && b.x.conn.aborted.Load(): // a replica that sees its connection end may end the answer in good order
			b.fail(net.ErrClosed)
		case ended:
			b.end(!extra && err == nil)
		case err == io.EOF && b.left < 0 && !b.chunked:
			b.end(false)
		case err == io.EOF:
			b.fail(io.ErrUnexpectedEOF)
		case err != nil:
			b.fail(err)
		}
		if n > 0 {
			return n, nil
		}
		if b.err != nil {
			return 0, b.err
		}
	}
}

// raw reads bytes as they came.
func (b *body) raw(p []byte) (int, error) {
	c := b.x.conn
	if c.aborted.Load() {
		if b.late {
			return 0, net.ErrClosed
		}
		b.late = true // one last read: what had come before counts
	}
	if !b.chunked && b.left >= 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	if b.br != nil {
		if n := b.br.Buffered(); n > 0 {
			n, _ = b.br.Read(p[:min(n, len(p))])
			return n, nil
		}
		recycle(b.br)
		b.br = nil
	}
	read := c.Read
	if b.now != nil {
		read = b.now.ReadNow
	}
	n, err := read(p)
	if err != nil && c.aborted.Load() { // the end may be the other side's answer to that
		err = net.ErrClosed
	}
	return n, err
}

// unframe takes the framing out of p in place. It returns how many bytes are
// left at the front of p, whether the body ended, and with bytes after it.
func (b *body) unframe(p []byte) (n int, ended, extra bool, err error) {
	switch {
	case b.chunked:
		n, used, err := b.chunks.decode(p)
		return n, b.chunks.ended(), used < len(p) || b.br != nil && b.br.Buffered() > 0, err
	case b.left >= 0:
		b.left -= int64(len(p))
		return len(p), b.left == 0, b.br != nil && b.br.Buffered() > 0, nil
	}
	return len(p), false, false, nil
}

// end notes the end of the body, and lets go of the connection.
func (b *body) end(clean bool) {
	b.err = io.EOF
	b.drop()
	b.later(func() { b.x.done(b.keep && clean) })
}

// fail notes that the body broke off.
func (b *body) fail(err error) {
	b.err = err
	b.drop()
	b.later(b.x.fail)
}

func (b *body) drop() {
	if b.br != nil {
		recycle(b.br)
		b.br = nil
	}
}

// Close ends the body early, which costs the connection.
func (b *body) Close() error {
	if b.err == nil {
		b.fail(http.ErrBodyReadAfterClose)
	}
	return nil
}
