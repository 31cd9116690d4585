package faultproxy

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkSize = 32 << 10
	maxChunks = 64 // read but not yet written, for each direction
)

// link is one forwarded connection.
type link struct {
	p              *Proxy
	client, target *net.TCPConn
	done           chan struct{} // closed when both are
	once           sync.Once
}

// chunk is what one read returned, and when. Without data it is the end.
type chunk struct {
	data []byte
	at   time.Time
}

func newLink(p *Proxy, client, target *net.TCPConn) *link {
	return &link{p: p, client: client, target: target, done: make(chan struct{})}
}

// run forwards both ways until both have ended or the link was cut.
func (l *link) run() {
	var wg sync.WaitGroup
	for _, way := range []struct {
		d        Direction
		src, dst *net.TCPConn
	}{{Up, l.client, l.target}, {Down, l.target, l.client}} {
		chunks := make(chan chunk, maxChunks)
		wg.Go(func() { l.read(way.src, chunks) })
		wg.Go(func() { l.write(way.d, way.dst, chunks) })
	}
	wg.Wait()
	l.end(FIN)
}

// end closes both sides, once.
func (l *link) end(how How) {
	l.once.Do(func() {
		close(l.done)
		closeAs(l.client, how)
		closeAs(l.target, how)
	})
}

func closeAs(conn *net.TCPConn, how How) {
	if how == RST {
		_ = conn.SetLinger(0) // a connection that is gone needs no reset
	}
	_ = conn.Close()
}

func (l *link) read(src *net.TCPConn, chunks chan<- chunk) {
	defer close(chunks)
	buf := make([]byte, chunkSize)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			select {
			case chunks <- chunk{bytes.Clone(buf[:n]), time.Now()}:
			case <-l.done:
				return
			}
		}
		switch {
		case err == io.EOF:
			select {
			case chunks <- chunk{at: time.Now()}:
			case <-l.done:
			}
			return
		case err != nil:
			l.end(RST)
			return
		}
	}
}

// write passes chunks on. An orderly end of one direction leaves the other
// open.
func (l *link) write(d Direction, dst *net.TCPConn, chunks <-chan chunk) {
	var passed int64
	for c := range chunks {
		f, _, ok := l.ready(d, c.at)
		if !ok {
			return
		}
		if c.data == nil {
			_ = dst.CloseWrite() // fails only if there is nobody left to tell
			return
		}
		if f.Drop {
			continue
		}
		if !l.pass(d, dst, c.data, &passed) {
			return
		}
	}
}

// ready waits until a chunk that came at a time may be passed on and returns
// the faults that hold by then and a channel that is closed when they change;
// false means that the link has ended.
func (l *link) ready(d Direction, at time.Time) (Faults, <-chan struct{}, bool) {
	for {
		f, changed := l.p.current(d)
		wait := time.Until(at.Add(f.Delay))
		if !f.Hold && wait <= 0 {
			return f, changed, true
		}
		var due <-chan time.Time
		if !f.Hold {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-l.done:
			return f, changed, false
		}
	}
}

// pass writes data in slices, asking before each what holds.
func (l *link) pass(d Direction, dst *net.TCPConn, data []byte, passed *int64) bool {
	for len(data) > 0 {
		f, changed, ok := l.ready(d, time.Time{})
		if !ok {
			return false
		}
		n := len(data)
		if f.Slice > 0 {
			n = min(n, f.Slice)
		}
		if f.CutAfter > 0 {
			n = int(min(int64(n), max(f.CutAfter-*passed, 0)))
		}
		if _, err := dst.Write(data[:n]); err != nil {
			l.end(RST)
			return false
		}
		*passed += int64(n)
		data = data[n:]
		if f.CutAfter > 0 && *passed >= f.CutAfter {
			l.end(f.CutHow)
			return false
		}
		if f.Gap > 0 && len(data) > 0 {
			l.pause(f.Gap, changed)
		}
	}
	return true
}

// pause waits, but not after the faults have changed or the link has ended.
func (l *link) pause(d time.Duration, changed <-chan struct{}) {
	select {
	case <-time.After(d):
	case <-changed:
	case <-l.done:
	}
}
