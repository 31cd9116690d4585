package h1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headBuffer = 4 << 10  // for reading the answer's head
	inline     = 64 << 10 // a request's body up to this size is sent before the answer is looked for
	noticeTime = 5 * time.Millisecond
)

// exchange is one request and its answer on one connection.
type exchange struct {
	t       *Transport
	conn    *conn
	release func() bool // the connection is no longer broken off with the context; false: it was
	sent    chan error  // how a body sent in the background went; nil if there is none
	content *Content    // the request's body; nil if it is another
}

// Body returns a request's body that is sent without being copied. As http.Request
// asks of one, it may be closed while it is read: the transport for HTTP/2 does
// that when an answer comes early, or never. One of which nothing was read stays
// whole when it is closed: that transport sends it on another connection where
// the first took no more requests.
func Body(b []byte) *Content { return &Content{b: b} }

// Content is a request's body in memory. It is safe for concurrent use.
type Content struct {
	mu    sync.Mutex
	b     []byte // not yet read
	begun bool
	gone  bool
	free  bool
}

func (c *Content) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.gone:
		return 0, http.ErrBodyReadAfterClose // the end would pass for that of the body
	case len(c.b) == 0:
		return 0, io.EOF
	}
	n := copy(p, c.b)
	c.b, c.begun = c.b[n:], true
	return n, nil
}

// Close lets go of the bytes.
func (c *Content) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun {
		c.b, c.gone, c.free = nil, true, true
	}
	return nil
}

// Free reports whether nobody will look at the bytes again. Until then they
// must not change.
func (c *Content) Free() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.free
}

// take returns what has not been read. Who takes it calls done.
func (c *Content) take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.b
	c.b, c.gone = nil, true
	return b
}

// done says that what was taken is not needed any more.
func (c *Content) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = c.gone && !c.begun
}

// content returns all of a request's body.
func content(r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	b := []byte(nil)
	switch body := r.Body.(type) {
	case nil:
	case *Content:
		b = body.take()
	default:
		var err error
		if b, err = io.ReadAll(io.LimitReader(r.Body, r.ContentLength+1)); err != nil {
			return nil, fmt.Errorf("h1: reading the request's body: %w", err)
		}
	}
	if int64(len(b)) != r.ContentLength {
		return nil, errors.New("h1: the body's length is not the one announced")
	}
	return b, nil
}

// roundTrip sends head, with a small body at its end or a large one in body,
// and reads the answer's head.
func (x *exchange) roundTrip(r *http.Request, head, body []byte) (*http.Response, error) {
	writeErr := x.send(head, body)
	if x.t.cfg.HeadTimeout > 0 {
		_ = x.conn.SetReadDeadline(time.Now().Add(x.t.cfg.HeadTimeout))
	}
	// A replica that refuses a request may answer and close before it has
	// read all of it: its answer counts, not the failed write.
	resp, br, err := x.receive(r)
	if err != nil && (writeErr == nil || err.Begun) {
		return nil, err
	}
	if err != nil {
		return nil, writeErr
	}
	if x.conn.aborted.Load() { // it may be the other side's answer to that
		recycle(br)
		return nil, net.ErrClosed
	}
	if x.t.cfg.HeadTimeout > 0 {
		_ = x.conn.SetReadDeadline(time.Time{})
	}
	resp.Close = resp.Close || writeErr != nil
	resp.Body = x.body(resp, r.Method, br) // the last step: where there is none, the connection is another request's
	return resp, nil
}

// send sends the request, a large one in the background.
func (x *exchange) send(head, body []byte) error {
	if len(body) == 0 {
		_, err := x.conn.Write(head)
		return err
	}
	x.sent = make(chan error, 1)
	go func() {
		_, err := x.conn.Write(head)
		if err == nil {
			_, err = x.conn.Write(body)
		}
		if x.content != nil {
			x.content.done()
		}
		x.sent <- err
	}()
	return nil
}

// HeadError says that the head of an answer could not be read.
type HeadError struct {
	Begun     bool // something had come
	Malformed bool // the connection was not lost: what came is not HTTP, or too large
	Err       error
}

// Error says what was being read, and what became of it.
func (e *HeadError) Error() string { return "h1: reading the head of the answer: " + e.Err.Error() }

// Unwrap returns Err.
func (e *HeadError) Unwrap() error { return e.Err }

// receive reads the answer's head. What came with it is in the reader.
func (x *exchange) receive(r *http.Request) (*http.Response, *bufio.Reader, *HeadError) {
	limited := &headReader{r: x.conn.Conn, left: x.t.cfg.MaxHead}
	br := readers.Get().(*bufio.Reader)
	br.Reset(limited)
	resp, err := http.ReadResponse(br, r)
	for err == nil && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
		resp, err = http.ReadResponse(br, r) // informational: MaxHead bounds how many
	}
	if err != nil {
		recycle(br)
		return nil, nil, &HeadError{Begun: limited.left < x.t.cfg.MaxHead, Malformed: limited.err == nil, Err: err}
	}
	limited.left = -1 // what follows is the body's
	return resp, br, nil
}

// requests holds memory for what is sent in one piece.
var requests = sync.Pool{New: func() any {
	b := make([]byte, 0, 1<<10)
	return &b
}}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, headBuffer) }}

func recycle(br *bufio.Reader) {
	br.Reset(nil)
	readers.Put(br)
}

// headReader reads up to a limit, without one if it is negative.
type headReader struct {
	r    io.Reader
	left int
	err  error // of r
}

func (h *headReader) Read(p []byte) (int, error) {
	if h.left == 0 {
		return 0, errors.New("h1: the head of the answer is too large")
	}
	if h.left > 0 && len(p) > h.left {
		p = p[:h.left]
	}
	n, err := h.r.Read(p)
	if h.left > 0 {
		h.left -= n
	}
	h.err = err
	return n, err
}

// fail ends the exchange together with its connection.
func (x *exchange) fail() {
	x.release()
	x.conn.Close()
	x.join()
}

// join waits until nobody uses the request's body any more.
func (x *exchange) join() {
	if x.sent != nil {
		<-x.sent
		x.sent = nil
	}
}

// done ends the exchange after the answer's end; the connection is kept if it
// may be.
func (x *exchange) done(keep bool) {
	keep = keep && x.sentAll()
	if x.release() && keep {
		x.t.idle.put(x.conn)
		return
	}
	x.conn.Close()
	x.join()
}

// sentAll reports whether the whole request went out. A replica that has read
// all of it may be faster with its answer than we are with noticing.
func (x *exchange) sentAll() bool {
	if x.sent == nil {
		return true
	}
	late := time.NewTimer(noticeTime)
	defer late.Stop()
	select {
	case err := <-x.sent:
		x.sent = nil
		return err == nil
	case <-late.C:
		return false // answered before all of the request was read
	}
}
