package vllm

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// Watcher polls the replicas of one pool and tells the registry what they
// report: load and capacity from /metrics, liveness from /health unless tokens
// that flow tell it better, restarts from the process's start time (and,
// through the registry, from counters that went back). A replica that does not
// answer is not reported: its last report grows stale, and the registry knows
// what to make of that. Members that join or leave are followed.
//
// What the replicas serve is asked with /v1/models, once in an engine's life,
// and again while a name in Expect is missing: adapters may be loaded later.
//
// The fields must not change while Run is under way.
type Watcher struct {
	Pool *registry.Pool // must be set

	Interval       time.Duration // between two looks at one replica's metrics. If zero, 500 ms
	HealthInterval time.Duration // between two looks at its health; a token that is not older stands for one. If zero, 1 s
	Timeout        time.Duration // for one answer, body included. If zero, 2 s
	Concurrency    int           // answers awaited at a time, a quarter of them from replicas that missed the last. If zero, 256

	Transport http.RoundTripper // If nil, one of the Watcher's own
	APIKey    string            // the engine's key. If empty, none is sent
	Expect    []string          // names every replica should serve: the base model's and those of adapters. One that is missing is logged once
	Logger    *slog.Logger      // hears when a replica stops and starts reporting, is ejected and is back, and lacks a name. If nil, nobody does
}

// Run polls until ctx ends. When it returns none of its goroutines is left. Where no
// other Watcher follows, call [registry.Replica.Unwatched] for each member then: what
// was seen last would count for ever.
func (w *Watcher) Run(ctx context.Context) {
	run := &watch{Watcher: *w, client: NewClient(w.Transport, w.APIKey), cancel: make(map[*registry.Replica]context.CancelFunc)}
	run.defaults()
	if w.Transport == nil {
		defer run.client.CloseIdleConnections()
	}
	defer run.wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer w.Pool.OnHealth(func(r *registry.Replica, ejected bool, why registry.Reason) {
		if ctx.Err() == nil { // else another Watcher may have taken over
			run.judged(r, ejected, why)
		}
	})()
	tick := time.NewTicker(run.Interval)
	defer tick.Stop()
	for {
		run.follow(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watch is one Run.
type watch struct {
	Watcher
	client *http.Client
	slots  chan struct{} // for replicas that answer
	late   chan struct{} // for those that did not the last time: they must not hold up the others
	cancel map[*registry.Replica]context.CancelFunc
	wg     sync.WaitGroup
}

func (w *watch) defaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&w.Interval, 500*time.Millisecond)
	set(&w.HealthInterval, time.Second)
	set(&w.Timeout, 2*time.Second)
	if w.Concurrency <= 0 {
		w.Concurrency = 256
	}
	if w.Logger == nil {
		w.Logger = slog.New(slog.DiscardHandler)
	}
	late := max(w.Concurrency/4, 1)
	w.late = make(chan struct{}, late)
	w.slots = make(chan struct{}, max(w.Concurrency-late, 1))
}

// judged logs that a replica was taken out of rotation or put back.
func (w *watch) judged(r *registry.Replica, ejected bool, why registry.Reason) {
	if ejected {
		w.Logger.Warn("replica ejected", "pool", w.Pool.Name(), "replica", r.Name(), "reason", string(why))
		return
	}
	w.Logger.Info("replica back", "pool", w.Pool.Name(), "replica", r.Name(), "reason", string(why))
}

// follow starts to poll members that are new and stops for those that left.
func (w *watch) follow(ctx context.Context) {
	members := w.Pool.Replicas()
	present := make(map[*registry.Replica]bool, len(members))
	for _, r := range members {
		present[r] = true
		if w.cancel[r] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		w.cancel[r] = cancel
		s := &scraper{watch: w, replica: r, generation: r.Generation()}
		w.wg.Go(func() { w.every(ctx, w.Interval, s.scrape) })
		w.wg.Go(func() { w.every(ctx, w.HealthInterval, func(ctx context.Context) bool { return w.probe(ctx, r) }) })
	}
	for r, cancel := range w.cancel {
		if !present[r] {
			cancel()
			delete(w.cancel, r)
		}
	}
}

// every calls f until ctx ends, never twice at a time. The first call and
// the pauses are jittered, so that replicas are not asked all at once. f
// reports whether there was an answer.
func (w *watch) every(ctx context.Context, interval time.Duration, f func(context.Context) bool) {
	timer := time.NewTimer(time.Duration(rand.Float64() * float64(interval)))
	defer timer.Stop()
	slots := w.slots
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		answered := f(ctx)
		<-slots
		if slots = w.slots; !answered {
			slots = w.late
		}
		timer.Reset(time.Duration((0.9 + 0.2*rand.Float64()) * float64(interval)))
	}
}

// probe asks for the replica's health, unless tokens that came since the last
// time tell it better. How many misses matter, and that busy is not dead, the
// registry decides.
func (w *watch) probe(ctx context.Context, r *registry.Replica) bool {
	if now := time.Now(); now.Sub(r.LastProgress()) < w.HealthInterval {
		r.SetProbe(true, now)
		return true
	}
	limited, cancel := context.WithTimeout(ctx, w.Timeout)
	err := Health(limited, w.client, r.URL())
	cancel()
	if ctx.Err() == nil {
		r.SetProbe(err == nil, time.Now())
	}
	return err == nil
}
