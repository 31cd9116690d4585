package faultbench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"
)

// conn is one connection: one goroutine reads requests and notices the peer's
// leaving, the other answers.
type conn struct {
	r        *Replica
	n        int
	nc       *net.TCPConn
	ctx      context.Context // ends when the peer is gone
	cancel   context.CancelFunc
	requests chan *inbound
	left     chan struct{} // closed when work returns
	gone     atomic.Int64  // when the peer's close was seen, unix nanoseconds
	busy     atomic.Bool
}

type inbound struct {
	head *http.Request
	body []byte
	raw  []byte
	at   time.Time
}

func (c *conn) reset() {
	_ = c.nc.SetLinger(0) // a connection that is gone needs no reset
	_ = c.nc.Close()
}

// tee keeps what is read.
type tee struct {
	r    io.Reader
	keep bytes.Buffer
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.keep.Write(p[:n])
	return n, err
}

func (c *conn) read() {
	defer c.cancel()
	defer close(c.requests)
	t := &tee{r: c.nc}
	br := bufio.NewReader(t)
	for {
		if Accept(c.r.accept.Load()) == Mute {
			c.mute()
		}
		if c.r.Idle > 0 {
			_ = c.nc.SetReadDeadline(time.Now().Add(c.r.Idle))
		}
		_, err := br.Peek(1)
		for isTimeout(err) && c.busy.Load() { // not idle at all
			_ = c.nc.SetReadDeadline(time.Now().Add(c.r.Idle))
			_, err = br.Peek(1)
		}
		if err != nil {
			c.gone.CompareAndSwap(0, time.Now().UnixNano())
			return
		}
		_ = c.nc.SetReadDeadline(time.Time{})
		c.busy.Store(true)
		in, err := c.next(br, t)
		if err != nil {
			c.gone.CompareAndSwap(0, time.Now().UnixNano())
			return
		}
		select {
		case c.requests <- in:
		case <-c.left:
			return
		}
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// mute reads and forgets until the peer leaves or the replica is no longer
// mute.
func (c *conn) mute() {
	for Accept(c.r.accept.Load()) == Mute {
		_ = c.nc.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		var b [1 << 12]byte
		if _, err := c.nc.Read(b[:]); err != nil && !isTimeout(err) {
			return
		}
	}
	c.reset() // what was forgotten cannot be answered
}

func (c *conn) next(br *bufio.Reader, t *tee) (*inbound, error) {
	head, err := http.ReadRequest(br)
	if err != nil {
		return nil, err
	}
	if head.Method == http.MethodPost && Accept(c.r.accept.Load()) == ResetHead {
		c.reset()
		return nil, io.ErrUnexpectedEOF
	}
	body, err := io.ReadAll(head.Body)
	if err != nil {
		return nil, err
	}
	raw := bytes.Clone(t.keep.Bytes()[:t.keep.Len()-br.Buffered()])
	rest := bytes.Clone(t.keep.Bytes()[len(raw):])
	t.keep.Reset()
	t.keep.Write(rest)
	return &inbound{head, body, raw, time.Now()}, nil
}

func (c *conn) work() {
	defer func() {
		close(c.left)
		_ = c.nc.Close()
		c.r.mu.Lock()
		delete(c.r.open, c)
		c.r.mu.Unlock()
	}()
	for in := range c.requests {
		if !c.answer(in) {
			return
		}
		c.busy.Store(false)
		if c.r.Idle > 0 { // counted from the end of the answer
			_ = c.nc.SetReadDeadline(time.Now().Add(c.r.Idle))
		}
	}
}

// answer deals with one request and reports whether the connection goes on.
func (c *conn) answer(in *inbound) bool {
	lines := 0
	for _, v := range in.head.Header {
		lines += len(v)
	}
	if lines > maxHeaders {
		return c.play(JSON(http.StatusBadRequest, []byte("Invalid HTTP request received."), 0), nil)
	}
	if in.head.Method != http.MethodPost {
		return c.play(c.r.face(in.head.URL.Path), nil)
	}
	g := Got{
		Replica: c.r.Name, Conn: c.n, Raw: in.raw, ID: in.head.Header.Get("X-Request-Id"), Path: in.head.URL.Path,
		Header: in.head.Header, Body: in.body, Arrived: in.at,
	}
	_ = json.Unmarshal(in.body, &g.Ask) // hostile bodies are for scripts that do not look
	if m := nonce.Find(in.body); m != nil {
		g.Nonce = string(m)
	}
	e := c.r.Ledger.add(g)
	n := c.r.running.Add(1)
	for p := c.r.peak.Load(); n > p && !c.r.peak.CompareAndSwap(p, n); p = c.r.peak.Load() {
	}
	defer c.r.running.Add(-1)
	var sc Script
	ok := false
	switch adapter := g.Ask.Model != c.r.model() && c.r.Adapters.Slots > 0; {
	case c.r.die(c, in.body):
		sc.End = DropRST
	case adapter && !c.r.Adapters.use(c, g.Ask.Model):
	default:
		sc = c.r.Respond(&g)
		ok = c.play(sc, e)
		if adapter {
			c.r.Adapters.done(g.Ask.Model)
		}
	}
	e.update(func(g *Got) {
		g.Ended, g.End = time.Now(), sc.End
		if at := c.gone.Load(); at != 0 {
			g.Gone = time.Unix(0, at)
		}
	})
	return ok
}

// maxHeaders is how many header lines the engine's HTTP server takes.
const maxHeaders = 256

var nonce = regexp.MustCompile(`nonce-[0-9a-z]+-`)

// play sends what a script says, and reports whether the connection goes on.
func (c *conn) play(sc Script, e *entry) bool {
	if !c.pause(sc.Wait) {
		return false
	}
	w := &writer{c: c, slice: sc.Slice}
	switch sc.End {
	case Silent:
		<-c.ctx.Done()
		return false
	case Drop:
		return false
	case DropRST:
		c.reset()
		return false
	}
	w.head(sc)
	if len(sc.Pieces) == 0 || sc.Pieces[0].Pause > 0 || sc.Length == 0 {
		w.flush()
	}
	for _, p := range sc.Pieces {
		if len(p.Data) == 0 && p.Pause == 0 {
			continue
		}
		if !c.pause(p.Pause) {
			return false
		}
		if len(p.Data) > 0 { // an empty chunk would be the end
			w.body(p.Data, sc.Length == 0)
			w.stamp()
		}
		if !w.flush() {
			return false
		}
		if p.Tokens > 0 && e != nil {
			c.r.tokens.Add(int64(p.Tokens))
			e.update(func(g *Got) { g.Tokens += p.Tokens })
		}
	}
	return c.end(sc, w)
}

func (c *conn) end(sc Script, w *writer) bool {
	switch sc.End {
	case Stall:
		<-c.ctx.Done()
		return false
	case RST:
		// What was sent must arrive first: a reset may overtake it.
		c.pause(5 * time.Millisecond)
		c.reset()
		return false
	case FIN:
		return false
	}
	if sc.Length == 0 {
		w.b.WriteString("0\r\n\r\n")
	}
	return w.flush() && sc.End != Close
}

func (c *conn) pause(d time.Duration) bool {
	if d <= 0 {
		return c.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// head writes the head of an answer, and the 1xx answers before it.
func (w *writer) head(sc Script) {
	for _, h := range sc.Informational {
		status := h.Get("Status")
		if status == "" {
			status = "103 Early Hints"
		}
		fmt.Fprintf(&w.b, "HTTP/1.1 %s\r\n", status)
		writeHeader(&w.b, h, "Status")
		w.b.WriteString("\r\n")
		w.flush()
	}
	status := sc.Status
	if status == 0 {
		status = http.StatusOK
	}
	fmt.Fprintf(&w.b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	writeHeader(&w.b, sc.Header, "")
	if sc.Length > 0 {
		fmt.Fprintf(&w.b, "Content-Length: %d\r\n", sc.Length)
	} else {
		w.b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	if sc.End == Close {
		w.b.WriteString("Connection: close\r\n")
	}
	w.b.WriteString("\r\n")
}

func writeHeader(b *bytes.Buffer, h http.Header, except string) {
	for name, values := range h {
		if name == except {
			continue
		}
		for _, v := range values {
			fmt.Fprintf(b, "%s: %s\r\n", name, v)
		}
	}
}

// writer collects bytes and sends them whole or in slices.
type writer struct {
	c     *conn
	b     bytes.Buffer
	slice int
}

func (w *writer) body(p []byte, chunked bool) {
	if !chunked {
		w.b.Write(p)
		return
	}
	fmt.Fprintf(&w.b, "%x\r\n", len(p))
	w.b.Write(p)
	w.b.WriteString("\r\n")
}

// stamp puts the time in the place of a Stamp.
func (w *writer) stamp() {
	if i := bytes.Index(w.b.Bytes(), []byte(Stamp)); i >= 0 {
		strconv.AppendInt(w.b.Bytes()[i:i], time.Now().UnixNano(), 10) // as long as the Stamp
	}
}

func (w *writer) flush() bool {
	for w.b.Len() > 0 {
		n := w.b.Len()
		if w.slice > 0 {
			n = min(n, 1+rand.IntN(w.slice))
		}
		if _, err := w.c.nc.Write(w.b.Next(n)); err != nil {
			w.c.gone.CompareAndSwap(0, time.Now().UnixNano())
			return false
		}
	}
	return true
}
