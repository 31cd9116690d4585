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
	gone bool
	at   time.Time
}

func newEngines() *engines { return &engines{asked: make(map[string]*question)} }

// lost reports whether the engine of a replica was lost under an attempt: it is
// gone, and was not known to be when the attempt began. ask finds out whether it
// is gone.
func (e *engines) lost(replica string, began time.Time, ask func() bool) bool {
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
	return q.gone && !began.After(q.at)
}

// find asks. Others wait for the answer, so there is one even if ask panics.
func (e *engines) find(replica string, q *question, ask func() bool) {
	gone := false
	defer func() { e.answer(replica, q, gone) }()
	gone = ask()
}

func (e *engines) answer(replica string, q *question, gone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.gone, q.at = gone, time.Now()
	close(q.done)
	for who, o := range e.asked {
		if !o.at.IsZero() && q.at.Sub(o.at) > poisonMemory {
			delete(e.asked, who)
		}
	}
	if !gone {
		delete(e.asked, replica) // the next failure may be another
	}
}

// engineGone asks whether a replica's engine is gone: its server says so with an
// empty 503 to /health, a proxy before it with a 502, a 504 or a 503 in its own
// words, or nobody answers any more.
func engineGone(ctx context.Context, p *pool, r *registry.Replica) bool {
	question, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	err := vllm.Health(question, vllm.NewClient(p.Transport, p.APIKey), r.URL())
	var answer *vllm.StatusError
	switch {
	case err == nil:
		return false
	case errors.As(err, &answer) && answer.Status == http.StatusServiceUnavailable:
		return !answer.JSON
	case answer != nil:
		return answer.Status == http.StatusBadGateway || answer.Status == http.StatusGatewayTimeout
	}
	alive, known := alive(ctx, p, r)
	return known && !alive && ctx.Err() == nil
}
