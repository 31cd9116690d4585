package sim

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// Received is what the replica knows about one generation request it got.
type Received struct {
	ID         string // the response id
	Path       string
	Header     http.Header
	Body       []byte
	RemoteAddr string // names the connection

	Model        string // as asked for
	Stream       bool
	PromptTokens int
	CachedTokens int
	Sent         int // tokens written to the client
	Choices      int

	Arrived    time.Time // when the body was read
	FirstToken time.Time // when the engine produced it
	Ended      time.Time // when the handler was done
	Aborted    time.Time // when the client was seen to have left; zero if it stayed
	Freed      time.Time // after Aborted: when the engine had freed all its blocks
	Status     int       // HTTP status, 0 if none was sent
	Reason     Reason    // finish reason of the last choice to finish
}

// entry is a Received that is being written.
type entry struct {
	mu sync.Mutex
	r  Received
}

func (e *entry) update(f func(*Received)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.r)
}

// ledger remembers requests, the newest ones if there are many, and which of
// them are in the engine.
type ledger struct {
	mu     sync.Mutex
	limit  int
	list   []*entry
	calls  map[*call]struct{}
	counts map[string]int // requests by path
}

func (l *ledger) add(r Received) *entry {
	e := &entry{r: r}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) >= l.limit {
		l.list = slices.Delete(l.list, 0, len(l.list)/10+1)
	}
	l.list = append(l.list, e)
	return e
}

func (l *ledger) live(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[*call]struct{}{}
	}
	l.calls[c] = struct{}{}
}

func (l *ledger) gone(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, c)
}

// endAll tells every request in the engine that it has ended.
func (l *ledger) endAll(why Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.calls {
		for i := range c.choices {
			c.push(event{choice: i, reason: why, empty: true})
		}
	}
	clear(l.calls)
}

func (l *ledger) count(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[string]int{}
	}
	l.counts[path]++
}

func (l *ledger) snapshot() []Received {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Received, len(l.list))
	for i, e := range l.list {
		e.mu.Lock()
		out[i] = e.r
		e.mu.Unlock()
	}
	return out
}
