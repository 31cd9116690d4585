package admissiontest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/admission"
)

type startFunc = func() (bool, error)

// broken is a crowdAdmitter with one thing wrong.
type broken struct {
	*crowdAdmitter
	admit func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error
	freed func(a *crowdAdmitter)
	close func(a *crowdAdmitter)
}

func (b broken) Admit(ctx context.Context, w admission.Work, start func() (bool, error)) error {
	if b.admit == nil {
		return b.crowdAdmitter.Admit(ctx, w, start)
	}
	return b.admit(ctx, b.crowdAdmitter, w, start)
}

func (b broken) Freed() {
	if b.freed == nil {
		b.crowdAdmitter.Freed()
		return
	}
	b.freed(b.crowdAdmitter)
}

func (b broken) Close() {
	if b.close == nil {
		b.crowdAdmitter.Close()
		return
	}
	b.close(b.crowdAdmitter)
}

var errOther = errors.New("something else")

// brokenAdmitters each break one promise, which one check or more must notice.
var brokenAdmitters = []struct {
	name   string
	found  string // by this check, if not by others too
	broken broken
}{
	{"waits for news first", "StartsAtOnce", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		first := true
		return a.Admit(ctx, w, func() (bool, error) {
			if first {
				first = false
				return false, nil
			}
			return start()
		})
	}}},
	{"does not wait", "WaitsForRoom", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, err := start()
		return err
	}}},
	{"hears no news", "WaitsForRoom", broken{freed: func(*crowdAdmitter) {}}},
	{"hides start's error", "StartFails", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		return a.Admit(ctx, w, func() (bool, error) {
			ok, err := start()
			if err != nil {
				err = errOther
			}
			return ok, err
		})
	}}},
	{"tries again after an error", "StartFails", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		return a.Admit(ctx, w, func() (bool, error) {
			ok, err := start()
			if err != nil {
				return start()
			}
			return ok, err
		})
	}}},
	{"tries again after true", "StartsAtOnce", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		return a.Admit(ctx, w, func() (bool, error) {
			if ok, err := start(); !ok || err != nil {
				return ok, err
			}
			return start()
		})
	}}},
	{"swallows a panic", "StartPanics", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) (err error) {
		defer func() {
			if recover() != nil {
				err = errOther
			}
		}()
		return a.Admit(ctx, w, start)
	}}},
	{"two at a time", "OneStartAtATime", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		return a.Admit(ctx, w, func() (bool, error) {
			var side sync.WaitGroup
			side.Go(func() {
				defer func() { _ = recover() }()
				_, _ = start()
			})
			defer side.Wait()
			return start()
		})
	}}},
	{"news during start are lost", "NewsWhileStarting", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		return a.Admit(ctx, w, func() (bool, error) {
			ok, err := start()
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, news := range a.waiting {
				select {
				case <-news:
				default:
				}
			}
			return ok, err
		})
	}}},
	{"holds its lock during start", "FreedFromStart", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		return a.Admit(ctx, w, func() (bool, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return start()
		})
	}}},
	{"Freed blocks", "FreedDoesNotBlock", broken{freed: func(a *crowdAdmitter) { a.Freed(); time.Sleep(time.Millisecond) }}},
	{"starts for an ended context", "EndedContext", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		if ok, err := start(); ok || err != nil {
			return err
		}
		return a.Admit(ctx, w, start)
	}}},
	{"ignores the context", "ContextEndsWhileWaiting", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return a.Admit(context.Background(), w, start)
	}}},
	{"calls an ended context a refusal", "ContextEndsWhileWaiting", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		err := a.Admit(ctx, w, start)
		if err != nil && ctx.Err() != nil {
			err = &admission.Error{Reason: admission.Deadline}
		}
		return err
	}}},
	{"forgets what started as the context ended", "ContextEndsWhileStarting", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		if err := a.Admit(ctx, w, start); err != nil {
			return err
		}
		return ctx.Err()
	}}},
	{"leaves start under way", "ContextEndsWhileStarting", broken{admit: abandon}},
	{"ignores the deadline", "Deadline", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		w.Deadline = time.Time{}
		return a.Admit(ctx, w, start)
	}}},
	{"untyped refusal", "Deadline", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		err := a.Admit(ctx, w, start)
		if e := (*admission.Error)(nil); errors.As(err, &e) && e.Reason == admission.Deadline {
			return context.DeadlineExceeded
		}
		return err
	}}},
	{"calls a refusal closing", "Deadline", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		err := a.Admit(ctx, w, start)
		if e := (*admission.Error)(nil); errors.As(err, &e) {
			return &admission.Error{Reason: admission.Closing}
		}
		return err
	}}},
	{"forgets what started at the deadline", "DeadlineWhileStarting", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		err := a.Admit(ctx, w, start)
		if err == nil && !w.Deadline.IsZero() && !time.Now().Before(w.Deadline) {
			return &admission.Error{Reason: admission.Deadline}
		}
		return err
	}}},
	{"keeps twice", "Keep", keeping(func(n int, keep func(), start startFunc) (bool, error) {
		if n == 100 || n == 200 {
			keep()
		}
		return start()
	})},
	{"keeps while starting", "Keep", keeping(func(n int, keep func(), start startFunc) (bool, error) {
		if n == 100 {
			timer := time.AfterFunc(time.Millisecond/2, keep)
			defer timer.Stop()
		}
		return start()
	})},
	{"keeps for who left", "Keep", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		err := a.Admit(ctx, w, start)
		if w.Keep != nil {
			time.AfterFunc(time.Millisecond, w.Keep)
		}
		return err
	}}},
	{"starts for who left", "ContextEndsWhileWaiting", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		err := a.Admit(ctx, w, start)
		if err != nil && ctx.Err() != nil {
			time.AfterFunc(time.Millisecond, func() { _, _ = start() })
		}
		return err
	}}},
	{"leaves who waits at the end", "Closing", broken{close: func(*crowdAdmitter) {}}},
	{"forgets what started as it closed", "Closing", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		err := a.Admit(ctx, w, start)
		if err == nil && a.closed() {
			return &admission.Error{Reason: admission.Closing}
		}
		return err
	}}},
	{"leaves a goroutine", "StartsAtOnce", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		go func() { <-make(chan int) }()
		return a.Admit(ctx, w, start)
	}}},
	{"no bound", "Bounds", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		w.Retry = true
		return a.Admit(ctx, w, start)
	}}},
	{"bounds a retry", "RetryIsNotBounded", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		w.Retry = false
		return a.Admit(ctx, w, start)
	}}},
	{"keeps the place of who left", "Bounds", broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		err := a.Admit(ctx, w, start)
		if err != nil {
			a.join(make(chan struct{}, 1), true)
		}
		return err
	}}},
	{"hears little news", "Traffic", deaf()},
}

// abandon returns when the context ends, with start under way or not.
func abandon(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if recover() != nil {
				done <- errOther
			}
		}()
		done <- a.Admit(ctx, w, start)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keeping is wrong in when it calls Keep: try makes the n-th call of start.
func keeping(try func(n int, keep func(), start startFunc) (bool, error)) broken {
	return broken{admit: func(ctx context.Context, a *crowdAdmitter, w admission.Work, start startFunc) error {
		n := 0
		return a.Admit(ctx, w, func() (bool, error) {
			n++
			if w.Keep == nil {
				return start()
			}
			return try(n, w.Keep, start)
		})
	}}
}

// deaf hears of room only now and then.
func deaf() broken {
	var n atomic.Int64
	return broken{freed: func(a *crowdAdmitter) {
		if n.Add(1)%50 == 0 {
			a.Freed()
		}
	}}
}

func TestBrokenAdmittersAreFound(t *testing.T) {
	for _, tt := range brokenAdmitters {
		t.Run(tt.name, func(t *testing.T) {
			found := false
			for _, c := range checks {
				if c.name != tt.found {
					continue
				}
				found = true
				c.real = min(c.real, time.Second/10)
				err := c.verdict(t, func(*testing.T) Subject {
					b := tt.broken
					b.crowdAdmitter = newCrowd(64)
					return Subject{Admitter: b, Close: b.Close, MaxWaiting: 64}
				})
				if err == nil {
					t.Errorf("%s does not notice", c.name)
				}
				t.Logf("%s: %v", c.name, err)
			}
			if !found {
				t.Errorf("no check is called %s", tt.found)
			}
		})
	}
}
