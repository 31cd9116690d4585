package expediter

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// lackTime is for how long a replica that does not serve a model is left out.
// After it a request asks again: an adapter may have been loaded, and a proxy
// before the replica may have been set right.
const lackTime = 10 * time.Second

// lacks remembers which replicas of a pool have said that they do not serve its
// model, or one of its adapters. They are well and serve the rest, so that nothing
// else keeps requests away from them.
type lacks struct {
	some  atomic.Bool
	mu    sync.Mutex
	until map[lack]time.Time
}

// lack is what a start of a replica does not serve.
type lack struct {
	replica    *registry.Replica
	generation uint64
	adapter    string // empty: the base model
}

// note remembers that a replica does not serve an adapter, or the base model.
func (l *lacks) note(r *registry.Replica, generation uint64, adapter string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until == nil {
		l.until = make(map[lack]time.Time)
	}
	l.until[lack{r, generation, adapter}] = now.Add(lackTime)
	l.some.Store(true)
}

// without returns tried and, of the other replicas, those that lack the adapter:
// tried itself if there are none.
func (l *lacks) without(tried, replicas []*registry.Replica, adapter string, now time.Time) []*registry.Replica {
	if !l.some.Load() {
		return tried
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, until := range l.until {
		if now.After(until) {
			delete(l.until, k)
		}
	}
	l.some.Store(len(l.until) > 0)
	all := slices.Clip(tried)
	for _, r := range replicas {
		if _, ok := l.until[lack{r, r.Generation(), adapter}]; ok && !slices.Contains(tried, r) {
			all = append(all, r)
		}
	}
	return all
}
