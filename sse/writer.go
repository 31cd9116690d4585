package sse

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	defaultTimeout = 30 * time.Second
	maxWrite       = 64 << 10 // bytes whose delivery counts as progress
)

var (
	// ErrNoFlush is returned by NewWriter for a ResponseWriter that cannot
	// flush, most often because a middleware wraps it without an Unwrap
	// method. Events would be delivered all at once, or not at all.
	ErrNoFlush = errors.New("sse: response writer cannot flush: " +
		"a middleware that wraps it has neither Flush nor Unwrap")

	// ErrStalled is wrapped by the error of a write that the client did not
	// take within WriterConfig.Timeout.
	ErrStalled = errors.New("sse: client stopped reading")

	// ErrAborted is wrapped by the error of a write after Abort.
	ErrAborted = errors.New("sse: response was aborted")

	// ErrCannotAbort is returned by Abort when no writer in the chain has a
	// write deadline.
	ErrCannotAbort = errors.New("sse: response writer has no write deadline to abort by")
)

// WriteError is the error of a Writer: the client, not the source of the
// events, has failed.
type WriteError struct {
	Op  string // "write" or "flush"
	Err error  // the cause; ErrStalled or ErrAborted where the Writer itself ended it
}

// Error names the operation and the cause.
func (e *WriteError) Error() string { return fmt.Sprintf("sse: %s to client: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// WriterConfig configures a Writer.
type WriterConfig struct {
	// Timeout is how long the client may take to accept one write or flush
	// of up to 64 KiB. A client that takes longer is cut off; it may be
	// noticed up to a quarter earlier. Time between writes does not count.
	// If zero, 30 seconds; if negative, unlimited.
	Timeout time.Duration

	// Request is the request that is answered. With it, and ConnContext in
	// the server, an HTTP/1.1 response is written without a detour. If nil,
	// it takes the usual way.
	Request *http.Request

	// KeepAlive is the silence after which a comment line is sent, so that
	// boxes on the way do not take the connection for idle. It begins with
	// the first write, and requires that each Write ends between two
	// events. If zero, none is sent.
	KeepAlive time.Duration
}

// A Writer sends an event stream to one client. Write and Flush are for one
// goroutine at a time; Abort and Close may be called by any while the
// handler has not returned.
type Writer struct {
	w     http.ResponseWriter
	can   abilities
	watch watchdog
	alive *keepAlive // nil without keep-alive
	short direct     // the way past net/http

	mu    sync.Mutex // held during writes if there is a keep-alive
	dirty bool       // there is something to flush, if only the header
	err   error
}

// NewWriter returns a Writer for a response. It writes nothing, so that its
// error, ErrNoFlush, can be answered before any work is begun. The server's
// own write time-out, which is one for the whole response, is lifted for
// this response: Timeout takes its place.
//
// Without a write deadline somewhere in the chain of writers Timeout has no
// effect, and Abort returns ErrCannotAbort.
func NewWriter(w http.ResponseWriter, cfg WriterConfig) (*Writer, error) {
	can := look(w)
	if !can.canFlush() {
		return nil, ErrNoFlush
	}
	if can.deadline != nil {
		// A connection that is gone says so at the first write.
		if err := can.deadline.SetWriteDeadline(time.Time{}); errors.Is(err, http.ErrNotSupported) {
			can.deadline = nil
		}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	sw := &Writer{w: w, can: can, dirty: true}
	sw.short.conn = underneath(w, cfg.Request)
	if can.deadline != nil && cfg.Timeout > 0 {
		sw.watch.start(can.deadline, cfg.Timeout)
	}
	if cfg.KeepAlive > 0 {
		sw.alive = &keepAlive{w: sw, interval: cfg.KeepAlive}
	}
	return sw, nil
}

// Write writes p, which the response may buffer until the next Flush. With a
// keep-alive p must end between two events. Every error is a *WriteError,
// and is returned again by every later call.
func (w *Writer) Write(p []byte) (int, error) {
	if w.alive == nil {
		return w.write(p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alive.touchLocked()
	return w.write(p)
}

func (w *Writer) write(p []byte) (written int, err error) {
	for w.err == nil {
		piece := p[written:min(len(p), written+maxWrite)]
		if !w.watch.enter() {
			w.fail("write", nil)
			break
		}
		n, err := w.put(piece)
		cut := !w.watch.leave()
		written += n
		if err == nil && n < len(piece) {
			err = io.ErrShortWrite
		}
		if cut || err != nil {
			w.fail("write", err)
			break
		}
		w.dirty = !w.short.on
		w.short.wrote = w.short.wrote || n > 0
		if written == len(p) {
			return written, nil
		}
	}
	return written, w.err
}

func (w *Writer) put(p []byte) (int, error) {
	if w.short.on {
		return w.short.write(p)
	}
	return w.w.Write(p)
}

// Flush sends what has been written to the client. The first one sends the
// header even if nothing was written.
func (w *Writer) Flush() error {
	if w.alive == nil {
		return w.flush()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alive.touchLocked()
	return w.flush()
}

func (w *Writer) flush() error {
	if w.err != nil || !w.dirty {
		return w.err
	}
	if !w.watch.enter() {
		return w.fail("flush", nil)
	}
	err := w.can.doFlush()
	cut := !w.watch.leave()
	if cut || err != nil {
		return w.fail("flush", err)
	}
	w.dirty = false
	if w.short.conn != nil {
		w.short.start(w.w.Header())
	}
	return nil
}

// fail notes the first error, and its reason where the Writer itself is it.
func (w *Writer) fail(op string, err error) error {
	switch w.watch.reason() {
	case stalled:
		err = errors.Join(ErrStalled, err)
	case aborted:
		err = errors.Join(ErrAborted, err)
	}
	w.err = &WriteError{Op: op, Err: err}
	return w.err
}

// Abort breaks the response off, so that the client sees an error instead of
// an end: the connection closes inside the chunked body on HTTP/1.1, the
// stream is reset on HTTP/2. What has been flushed still arrives. Unlike a
// panic with http.ErrAbortHandler it works under a middleware that recovers
// from every panic. The handler should return after it.
//
// If it returns ErrCannotAbort, that panic is what remains. An HTTP/1.0
// client cannot tell the difference.
func (w *Writer) Abort() error {
	if w.can.deadline == nil {
		return ErrCannotAbort
	}
	return w.watch.abort(w.can.deadline)
}

// Close ends the Writer's timers and waits for a keep-alive being written.
// It neither flushes nor ends the response. It must be called before the
// handler returns if there is a keep-alive, and does no harm otherwise.
func (w *Writer) Close() {
	if w.alive != nil {
		w.alive.close()
	}
	w.watch.close()
}
