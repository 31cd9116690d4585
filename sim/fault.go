package sim

import (
	"bytes"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// Fault is what goes wrong with one generation request. The zero Fault changes
// nothing. Pause, Informational and Slice apply whatever Do says.
type Fault struct {
	At     Phase
	Tokens int           // with AtToken: how many tokens are sent first
	Pause  time.Duration // waited at At, before Do
	Do     Action

	Status int         // with Answer: the HTTP status; if zero, 500
	Header http.Header // with Answer and Script: added to the answer's
	Body   []byte      // with Answer
	Script []Piece     // with Play: the raw body
	End    Action      // with Play: how it ends: Nothing is a clean end

	Informational []int // 1xx statuses sent before the answer
	Slice         int   // every write is cut into pieces of 1 to Slice bytes, each flushed
}

// Piece is one write of a scripted body, flushed, after a pause.
type Piece struct {
	Pause time.Duration
	Data  []byte
}

// Phase is a moment in the life of a generation request.
type Phase int

// The phases, in order.
const (
	AtHeaders Phase = iota // the request's head has been read, its body has not
	AtRequest              // the request has been read
	AtHead                 // streaming only: the answer's head has been sent
	AtToken                // streaming only: Fault.Tokens tokens have been sent
	AtDone                 // streaming only: everything but usage and [DONE] has been sent
)

// Action is what happens at a Phase.
type Action int

// The actions.
const (
	Nothing    Action = iota
	Reset             // the connection is reset
	Hangup            // the connection is closed, in the middle of the answer if one has begun
	Stall             // nothing more is sent until the client leaves
	Finish            // the body ends cleanly, with what has been sent
	Answer            // Status, Header and Body are the answer
	Play              // Script is the body of a 200
	ErrorEvent        // streaming: an error event of code 500 and [DONE]
	BareDone          // streaming: [DONE] without a finish reason
	Die               // the replica is killed, see Server.Kill
	Wedge             // the engine hangs, see Server.Hang; the request goes on without tokens
)

// Arrival is a generation request for which a fault can be chosen.
type Arrival struct {
	N       int // requests before this one
	Request *http.Request

	body *bytes.Reader
	data []byte
	err  error
}

// Body reads the request's body. A Fault with AtHeaders is only what it says
// if nobody has.
func (a *Arrival) Body() []byte {
	if a.body == nil {
		a.data, a.err = io.ReadAll(a.Request.Body)
		a.body = bytes.NewReader(a.data)
	}
	return a.data
}

// SetFault makes f choose the fault of every generation request from now on;
// f may return nil, and may be nil. It is called from many goroutines.
func (s *Server) SetFault(f func(*Arrival) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// OnMarker chooses f for requests whose body contains marker.
func OnMarker(marker string, f Fault) func(*Arrival) *Fault {
	return func(a *Arrival) *Fault {
		if !bytes.Contains(a.Body(), []byte(marker)) {
			return nil
		}
		return &f
	}
}

// choose asks for the fault of a request; it is never nil.
func (s *Server) choose(a *Arrival) *Fault {
	s.mu.Lock()
	f := s.fault
	a.N = s.arrivals
	s.arrivals++
	s.mu.Unlock()
	if f != nil {
		if got := f(a); got != nil {
			return got
		}
	}
	return &Fault{}
}

// script is a Fault that is being applied to one request.
type script struct {
	*Fault
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	entry *entry
	tails func([]byte) error // sends a line of the stream, once there is one
}

// at applies the fault if its phase is p, and reports whether the request is over.
func (sc *script) at(p Phase, tokens int) bool {
	if sc.At != p || p == AtToken && tokens != sc.Tokens {
		return false
	}
	if sleep(sc.r.Context(), sc.Pause) != nil {
		sc.seen()
		return true
	}
	return sc.do(sc.Do)
}

func (sc *script) do(a Action) bool {
	switch a {
	case Nothing:
		return false
	case Wedge:
		sc.s.Hang()
		return false
	case Die:
		sc.s.Kill()
		breakConn(sc.w, true)
	case Reset:
		breakConn(sc.w, true)
	case Hangup:
		breakConn(sc.w, false)
	case Stall:
		<-sc.r.Context().Done()
		sc.seen()
	case Answer:
		sc.answer()
	case Play:
		return sc.play()
	case ErrorEvent:
		bad := apiError{http.StatusInternalServerError, "InternalServerError", "", "EngineCore encountered an issue"}
		sc.line(bad.append(nil))
		sc.line([]byte("[DONE]"))
	case BareDone:
		sc.line([]byte("[DONE]"))
	}
	return true
}

// seen notes that the client has left.
func (sc *script) seen() {
	sc.entry.update(func(e *Received) { e.Aborted = time.Now() })
}

func (sc *script) line(data []byte) {
	if sc.tails != nil {
		_ = sc.tails(data)
	}
}

func (sc *script) head(status int) {
	maps.Copy(sc.w.Header(), sc.Header)
	sc.entry.update(func(e *Received) { e.Status = status })
	sc.w.WriteHeader(status)
}

func (sc *script) answer() {
	status := sc.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	sc.head(status)
	_, _ = sc.w.Write(sc.Body)
}

func (sc *script) play() bool {
	sc.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	sc.head(http.StatusOK)
	rc := http.NewResponseController(sc.w)
	_ = rc.Flush()
	for _, p := range sc.Script {
		if sleep(sc.r.Context(), p.Pause) != nil {
			sc.seen()
			return true
		}
		if _, err := sc.w.Write(p.Data); err != nil {
			sc.seen()
			return true
		}
		_ = rc.Flush()
	}
	sc.do(sc.End)
	return true
}

// breakConn closes or resets the connection under w.
func breakConn(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the server closes the connection
	}
	if l, ok := conn.(interface{ SetLinger(int) error }); ok && reset {
		_ = l.SetLinger(0)
	}
	_ = conn.Close()
}

var _ interface{ SetLinger(int) error } = (*net.TCPConn)(nil)

// slicer cuts every write into small pieces, each flushed.
type slicer struct {
	http.ResponseWriter
	rnd  *rand.Rand
	most int
}

func newSlicer(w http.ResponseWriter, n, most int) *slicer {
	return &slicer{w, rand.New(rand.NewPCG(uint64(n), 1)), most}
}

// Unwrap lets http.ResponseController through.
func (s *slicer) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *slicer) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n := min(1+s.rnd.IntN(s.most), len(p)-done)
		k, err := s.ResponseWriter.Write(p[done : done+n])
		done += k
		if err != nil {
			return done, err
		}
		if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
			return done, err
		}
	}
	return done, nil
}

// Trouble is what is wrong with one of the replica's own routes.
type Trouble struct {
	Delay   time.Duration // before the answer
	Hang    bool          // no answer until the client leaves
	Status  int           // instead of 200
	Stale   bool          // metrics only: the values of the moment Stale was set
	Garbage []byte        // metrics only: instead of the exposition
}

// SetHealth changes how /health and /ping answer.
func (s *Server) SetHealth(t Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health = t
}

// SetMetrics changes how /metrics answers.
func (s *Server) SetMetrics(t Trouble) {
	if t.Stale {
		t.Garbage = s.exposition()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metrics = t
}

// SetModels changes how /v1/models answers.
func (s *Server) SetModels(t Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = t
}

// serve waits as t says; it returns false if that was the whole answer.
func (t Trouble) serve(ctx context.Context, w http.ResponseWriter) bool {
	if t.Hang {
		<-ctx.Done()
		return false
	}
	if sleep(ctx, t.Delay) != nil {
		return false
	}
	if t.Status != 0 && t.Status != http.StatusOK {
		w.WriteHeader(t.Status)
		return false
	}
	return true
}
