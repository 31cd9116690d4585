package admissiontest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/admission"
)

// crowdAdmitter is an Admitter without any order: whoever waits tries when
// there is news. It is as simple as one can be that keeps all promises.
type crowdAdmitter struct {
	max     int // entries
	mu      sync.Mutex
	waiting []chan struct{}
	closing chan struct{}
}

func newCrowd(maxWaiting int) *crowdAdmitter {
	return &crowdAdmitter{max: maxWaiting, closing: make(chan struct{})}
}

func (a *crowdAdmitter) Admit(ctx context.Context, w admission.Work, start func() (bool, error)) error {
	news := make(chan struct{}, 1)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case a.closed():
		return &admission.Error{Reason: admission.Closing}
	case !a.join(news, w.Retry):
		return &admission.Error{Reason: admission.QueueFull}
	}
	defer a.leave(news)
	var late <-chan time.Time
	if !w.Deadline.IsZero() {
		late = time.After(time.Until(w.Deadline))
	}
	for {
		if ok, err := start(); ok || err != nil {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return &admission.Error{Reason: admission.Deadline}
		case <-a.closing:
			return &admission.Error{Reason: admission.Closing}
		}
	}
}

func (a *crowdAdmitter) join(news chan struct{}, whatever bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) >= a.max && !whatever {
		return false
	}
	a.waiting = append(a.waiting, news)
	return true
}

func (a *crowdAdmitter) leave(news chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = slices.DeleteFunc(a.waiting, func(c chan struct{}) bool { return c == news })
}

func (a *crowdAdmitter) Freed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, news := range a.waiting {
		select {
		case news <- struct{}{}:
		default:
		}
	}
}

func (a *crowdAdmitter) closed() bool {
	select {
	case <-a.closing:
		return true
	default:
		return false
	}
}

func (a *crowdAdmitter) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed() {
		close(a.closing)
	}
}

func TestCrowd(t *testing.T) {
	Run(t, func(*testing.T) Subject {
		a := newCrowd(64)
		return Subject{Admitter: a, Close: a.Close, MaxWaiting: 64}
	})
	Run(t, func(*testing.T) Subject { return Subject{Admitter: newCrowd(1000)} })
}
