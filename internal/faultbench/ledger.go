package faultbench

import (
	"net/http"
	"sync"
	"time"
)

// Got is one generation request as a Replica got it, and what became of it.
type Got struct {
	Replica string
	Conn    int    // which connection of the Replica, from 1
	Raw     []byte // as on the wire
	ID      string // its X-Request-Id
	Path    string
	Header  http.Header
	Body    []byte
	Ask     Ask
	Nonce   string // which a Client put into the prompt

	Arrived time.Time
	Tokens  int       // really sent
	Ended   time.Time // when the script was over
	Gone    time.Time // when the peer's close was seen, before the end; else zero
	End     End
}

// Ledger is what replicas really got and did: the ground truth. The zero
// value is ready to use.
type Ledger struct {
	Slim bool // do not keep bytes and headers of requests

	mu   sync.Mutex
	list []*entry
}

type entry struct {
	mu sync.Mutex
	g  Got
}

func (e *entry) update(f func(*Got)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.g)
}

func (l *Ledger) add(g Got) *entry {
	if l.Slim {
		g.Raw, g.Body, g.Header = nil, nil, nil
		g.Ask.Messages, g.Ask.Prompt = nil, nil
	}
	e := &entry{g: g}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, e)
	return e
}

// All returns what is in the ledger, oldest first.
func (l *Ledger) All() []Got {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Got, len(l.list))
	for i, e := range l.list {
		e.mu.Lock()
		out[i] = e.g
		e.mu.Unlock()
	}
	return out
}

// Len returns how many requests there were.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

// ByID returns the ledger by request id.
func (l *Ledger) ByID() map[string][]Got {
	m := make(map[string][]Got)
	for _, g := range l.All() {
		m[g.ID] = append(m[g.ID], g)
	}
	return m
}

// Forget empties the ledger.
func (l *Ledger) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}
