package expediter

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/vllm"
)

// engines remembers which engines are gone while the servers before them live
// on. Such a server answers with a 500 and goes on reporting, so it is asked for
// its health, once for all requests that it fails at a time.
type engines struct {
	mu    sync.Mutex
	asked map[string]*question // by replica, see one
}

type question struct {
	done chan struct{} // closed when what follows is known
	fate fate
	at   time.Time
}

// fate is what became of an engine.
type fate int

const (
	well     fate = iota
	doubtful      // a proxy before it says that nobody is there, or turns requests away
	gone
)

func newEngines() *engines { return &engines{asked: make(map[string]*question)} }

// lost reports whether the engine of a replica was lost under an attempt: it is
// gone, and was not known to be when the attempt began. ask finds out what became
// of it.
func (e *engines) lost(replica string, began time.Time, ask func() fate) fate {
	e.mu.Lock()
	q, known := e.asked[replica]
	if !known {
		q = &question{done: make(chan struct{})}
		e.asked[replica] = q
	}
	e.mu.Unlock()
	if known {
		<-q.done
	} else {
		e.find(replica, q, ask)
	}
	if began.After(q.at) {
		return well
	}
	return q.fate
}

// find asks. Others wait for the answer, so there is one even if ask panics.
func (e *engines) find(replica string, q *question, ask func() fate) {
	found := well
	defer func() { e.answer(replica, q, found) }()
	found = ask()
}

func (e *engines) answer(replica string, q *question, found fate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.fate, q.at = found, time.Now()
	close(q.done)
	for who, o := range e.asked {
		if !o.at.IsZero() && q.at.Sub(o.at) > poisonMemory {
			delete(e.asked, who)
		}
	}
	if found != gone {
		delete(e.asked, replica) // the next failure may be another
	}
}

// engineFate asks what became of a replica's engine. It is gone if its server says
// so, or if nobody answers any more.
func engineFate(ctx context.Context, p *pool, r *registry.Replica) fate {
	question, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	err := vllm.Health(question, vllm.NewClient(p.Transport, p.APIKey), r.URL())
	var answer *vllm.StatusError
	if err == nil {
		return well
	}
	if errors.As(err, &answer) {
		return fateBy(answer)
	}
	if alive, known := alive(ctx, p, r); known && !alive && ctx.Err() == nil {
		return gone
	}
	return well
}

// fateBy is what an answer other than 200 to /health says. The server's own 503 is
// empty, and JSON while it changes its size; proxies have words, or other statuses.
func fateBy(answer *vllm.StatusError) fate {
	switch {
	case answer.Status == http.StatusServiceUnavailable && answer.Empty:
		return gone
	case answer.Status == http.StatusServiceUnavailable && answer.JSON:
		return well
	case answer.Status == http.StatusServiceUnavailable, answer.Status == http.StatusBadGateway, answer.Status == http.StatusGatewayTimeout:
		return doubtful
	}
	return well
}
