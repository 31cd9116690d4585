package sim

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Conn is one end of a connection in a Network.
type Conn struct {
	in, out       *lane
	local, remote address
	owner         *Listener // of the accepting end

	mu     sync.Mutex
	linger bool // Close resets
	closed bool
}

// Read reads what the peer sent. It returns io.EOF once the peer has closed.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// Write sends p, and blocks while too much is in flight.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close ends both directions: the peer reads what was sent, then io.EOF, and
// its writes fail. After SetLinger(0) it is a Reset.
func (c *Conn) Close() error {
	c.mu.Lock()
	linger, closed := c.linger, c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return c.opError("close", net.ErrClosed)
	}
	if linger {
		c.Reset()
		return nil
	}
	c.out.finish(io.EOF)
	c.in.close(net.ErrClosed, syscall.EPIPE)
	c.out.failWrites(net.ErrClosed)
	c.detach()
	return nil
}

// CloseWrite ends the sending direction only.
func (c *Conn) CloseWrite() error {
	c.out.finish(io.EOF)
	return nil
}

// Reset breaks the connection: what is in flight is lost, and the peer's calls
// fail with connection reset.
func (c *Conn) Reset() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.out.finish(syscall.ECONNRESET)
	c.in.close(net.ErrClosed, syscall.ECONNRESET)
	c.detach()
}

// SetLinger makes Close a Reset if sec is 0, as it does for TCP.
func (c *Conn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linger = sec == 0
	return nil
}

func (c *Conn) detach() {
	if c.owner != nil {
		c.owner.forget(c)
	}
}

// LocalAddr returns this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other end's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline makes reads fail after t; they may be under way already.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.deadline(&c.in.readBy, &c.in.readTimer, t)
	return nil
}

// SetWriteDeadline makes writes fail after t; they may be under way already.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.deadline(&c.out.writeBy, &c.out.writeTimer, t)
	return nil
}

// lane is one direction of a connection.
type lane struct {
	limit int
	delay time.Duration

	mu                    sync.Mutex
	segs                  []segment
	size                  int       // bytes in segs
	finished              bool      // a last segment with an error is under way
	readErr               error     // why reads fail, once the reading end is closed
	writeErr              error     // why writes fail
	failAt                time.Time // from when on they do
	readBy                time.Time
	writeBy               time.Time
	readTimer, writeTimer *time.Timer
	changed               chan struct{} // closed at every change, when somebody waits
}

// segment is one write on its way, or the end of the direction.
type segment struct {
	data []byte
	err  error
	at   time.Time // when it arrives; zero if the lane has no delay
}

func newLane(limit int, delay time.Duration) *lane { return &lane{limit: limit, delay: delay} }

func (l *lane) waitLocked() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

func (l *lane) signal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signalLocked()
}

func (l *lane) signalLocked() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

func passed(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

func (l *lane) read(p []byte) (int, error) {
	for {
		l.mu.Lock()
		n, err, ok := l.readLocked(p)
		if ok {
			l.mu.Unlock()
			return n, err
		}
		wait := l.waitLocked()
		l.mu.Unlock()
		<-wait
	}
}

// readLocked reads what has arrived; ok is false if that is nothing yet.
func (l *lane) readLocked(p []byte) (n int, err error, ok bool) {
	if l.readErr != nil {
		return 0, l.readErr, true
	}
	if passed(l.readBy) {
		return 0, os.ErrDeadlineExceeded, true
	}
	if len(p) == 0 {
		return 0, nil, true
	}
	for len(l.segs) > 0 && n < len(p) {
		s := &l.segs[0]
		if !s.at.IsZero() && time.Now().Before(s.at) {
			break
		}
		if s.err != nil {
			if n == 0 {
				return 0, s.err, true // stays for later reads
			}
			break
		}
		k := copy(p[n:], s.data)
		n += k
		s.data = s.data[k:]
		l.size -= k
		if len(s.data) == 0 {
			l.segs = l.segs[1:]
		}
	}
	if n > 0 {
		l.signalLocked()
	}
	return n, nil, n > 0
}

func (l *lane) write(p []byte) (int, error) {
	done := 0
	for {
		l.mu.Lock()
		switch {
		case l.writeErr != nil && passed(l.failAt):
			l.mu.Unlock()
			return done, l.writeErr
		case l.finished:
			l.mu.Unlock()
			return done, net.ErrClosed
		case passed(l.writeBy):
			l.mu.Unlock()
			return done, os.ErrDeadlineExceeded
		}
		if n := min(len(p), l.limit-l.size); n > 0 {
			l.pushLocked(segment{data: append([]byte(nil), p[:n]...)})
			l.size += n
			done += n
			p = p[n:]
		}
		if len(p) == 0 {
			l.mu.Unlock()
			return done, nil
		}
		wait := l.waitLocked()
		l.mu.Unlock()
		<-wait
	}
}

// pushLocked sends a segment on its way.
func (l *lane) pushLocked(s segment) {
	if l.delay > 0 {
		s.at = time.Now().Add(l.delay)
		time.AfterFunc(l.delay, l.signal)
	}
	l.segs = append(l.segs, s)
	l.signalLocked()
}

// finish ends the direction behind what is in flight; a reset overtakes it.
func (l *lane) finish(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finished && err == io.EOF {
		return
	}
	l.finished = true
	if err != io.EOF {
		l.segs, l.size = nil, 0
	}
	l.pushLocked(segment{err: err})
}

// close makes the reading end's reads fail and, after the delay, the writing
// end's writes.
func (l *lane) close(readErr, writeErr error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readErr == nil {
		l.readErr = readErr
	}
	l.failWritesLocked(writeErr, l.delay)
}

// failWrites makes the writing end's writes fail at once.
func (l *lane) failWrites(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failWritesLocked(err, 0)
}

func (l *lane) failWritesLocked(err error, after time.Duration) {
	at := time.Now().Add(after)
	if l.writeErr == nil || at.Before(l.failAt) {
		l.writeErr, l.failAt = err, at
	}
	if after > 0 {
		time.AfterFunc(after, l.signal)
	}
	l.signalLocked()
}

// deadline sets one of the lane's deadlines and wakes whoever waits, now and then.
func (l *lane) deadline(field *time.Time, timer **time.Timer, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*field = t
	l.signalLocked()
	if *timer != nil {
		(*timer).Stop()
	}
	if d := time.Until(t); !t.IsZero() && d > 0 {
		*timer = time.AfterFunc(d, l.signal)
	}
}
