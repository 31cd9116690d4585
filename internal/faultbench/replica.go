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
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Accept is what a Replica does with a new connection.
type Accept int32

// The ways to accept.
const (
	Serve     Accept = iota
	Mute             // nothing is read and nothing sent
	Reset            // the connection is reset at once
	Hangup           // the connection is closed at once
	ResetHead        // the connection is reset when the head of a generation request has come
)

// Replica is a scripted engine on a loopback socket. It reads requests by
// itself, so that a script rules every byte of what it sends. All fields must
// be set before Start; methods may be called at any time.
type Replica struct {
	Name    string
	Model   string        // served model; If empty, acme-8b
	KV      int           // cache capacity reported, in tokens. If zero, 200,000
	Idle    time.Duration // an idle connection is closed after it. If zero, never
	Ledger  *Ledger       // shared by the replicas of a house
	Respond func(*Got) Script
	Face    func(path string) *Script // answers probes and scrapes; nil, or a nil Script: the usual answer

	accept  atomic.Int32
	conns   atomic.Int64
	running atomic.Int64
	tokens  atomic.Int64
	started atomic.Int64 // unix nanoseconds: changes at each restart
	peak    atomic.Int64

	mu   sync.Mutex
	addr string
	ln   net.Listener
	open map[*conn]struct{}
	wg   sync.WaitGroup
}

// Start listens on a free loopback port.
func (r *Replica) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listenLocked("127.0.0.1:0")
}

func (r *Replica) listenLocked(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("faultbench: listen: %w", err)
	}
	r.ln, r.addr = ln, ln.Addr().String()
	r.started.Store(time.Now().UnixNano())
	if r.open == nil {
		r.open = make(map[*conn]struct{})
	}
	r.wg.Go(func() { r.serve(ln) })
	return nil
}

// Addr is the host and port it listens on, also while it is dead.
func (r *Replica) Addr() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addr
}

// URL is the base address.
func (r *Replica) URL() string { return "http://" + r.Addr() }

// SetAccept changes what happens to new connections.
func (r *Replica) SetAccept(a Accept) { r.accept.Store(int32(a)) }

// Conns returns how many connections were accepted so far.
func (r *Replica) Conns() int { return int(r.conns.Load()) }

// Running returns how many generation requests are under way.
func (r *Replica) Running() int { return int(r.running.Load()) }

// Peak returns the most that were under way at once.
func (r *Replica) Peak() int { return int(r.peak.Load()) }

// Kill ends the process in effect: nobody listens, all connections are reset.
func (r *Replica) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ln != nil {
		_ = r.ln.Close()
		r.ln = nil
	}
	for c := range r.open {
		c.reset()
	}
}

// Revive starts a new process at the old address.
func (r *Replica) Revive() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ln != nil {
		return nil
	}
	return r.listenLocked(r.addr)
}

// CutAll resets all connections and goes on listening.
func (r *Replica) CutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		c.reset()
	}
}

// Stop ends the replica and waits for everything it runs.
func (r *Replica) Stop() {
	r.Kill()
	r.wg.Wait()
}

func (r *Replica) serve(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		n := int(r.conns.Add(1))
		switch Accept(r.accept.Load()) {
		case Reset:
			_ = nc.(*net.TCPConn).SetLinger(0)
			_ = nc.Close()
			continue
		case Hangup:
			_ = nc.Close()
			continue
		}
		c := &conn{r: r, n: n, nc: nc.(*net.TCPConn), requests: make(chan *inbound), left: make(chan struct{})}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		r.mu.Lock()
		if r.ln != ln { // killed meanwhile
			r.mu.Unlock()
			c.reset()
			continue
		}
		r.open[c] = struct{}{}
		r.mu.Unlock()
		r.wg.Go(c.read)
		r.wg.Go(c.work)
	}
}

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
	sc := c.r.Respond(&g)
	ok := c.play(sc, e)
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
		if i := bytes.Index(p.Data, []byte(Stamp)); i >= 0 {
			copy(p.Data[i:], strconv.FormatInt(time.Now().UnixNano(), 10))
		}
		if len(p.Data) > 0 { // an empty chunk would be the end
			w.body(p.Data, sc.Length == 0)
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

// face answers probes and scrapes.
func (r *Replica) face(path string) Script {
	if r.Face != nil {
		if sc := r.Face(path); sc != nil {
			return *sc
		}
	}
	model, kv := r.Model, r.KV
	if model == "" {
		model = "acme-8b"
	}
	if kv == 0 {
		kv = 200_000
	}
	switch path {
	case "/health":
		return JSON(http.StatusOK, []byte("\n"), 0)
	case "/version":
		return JSON(http.StatusOK, []byte(`{"version":"0.24.0"}`), 0)
	case "/v1/models":
		return JSON(http.StatusOK, fmt.Appendf(nil, `{"object":"list","data":[{"id":%q,"object":"model","max_model_len":32768}]}`, model), 0)
	case "/metrics":
		sc := JSON(http.StatusOK, r.metrics(model, kv), 0)
		sc.Header.Set("Content-Type", "text/plain; version=0.0.4")
		return sc
	}
	return JSON(http.StatusNotFound, []byte(`{"detail":"Not Found"}`), 0)
}

func (r *Replica) metrics(model string, kv int) []byte {
	var b strings.Builder
	l := fmt.Sprintf("{engine=\"0\",model_name=%q}", model)
	fmt.Fprintf(&b, "process_start_time_seconds %.3f\n", float64(r.started.Load())/1e9)
	fmt.Fprintf(&b, "vllm:num_requests_running%s %d\nvllm:num_requests_waiting%s 0\n", l, r.running.Load(), l)
	fmt.Fprintf(&b, "vllm:kv_cache_usage_perc%s 0\nvllm:generation_tokens_total%s %d\n", l, l, r.tokens.Load())
	fmt.Fprintf(&b, "vllm:iteration_tokens_total_count%s %d\n", l, r.tokens.Load())
	fmt.Fprintf(&b, "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"%d\",engine=\"0\"} 1\n", kv/16)
	return []byte(b.String())
}
