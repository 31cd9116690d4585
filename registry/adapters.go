package registry

import (
	"sync"
	"sync/atomic"
)

// adapters is the table of LoRA adapters that a replica probably has on its
// GPU: the engine does not report residency, so it is the most recently used
// ones, as many as the engine has slots. Reads take no lock.
type adapters struct {
	list  atomic.Pointer[[]loaded]
	clock atomic.Uint64
	mu    sync.Mutex // held to change list
}

// loaded has the name beside the pointer, so that a search reads one array.
type loaded struct {
	name string
	*adapter
}

type adapter struct {
	used     atomic.Uint64 // the table's clock at the last use
	inFlight atomic.Int64
}

func (t *adapters) find(name string) *adapter {
	list := t.list.Load()
	if list == nil {
		return nil
	}
	for i := range *list {
		if l := &(*list)[i]; l.name == name {
			return l.adapter
		}
	}
	return nil
}

// use marks name as used now, adding it in place of the least recently used
// one without requests in flight when all slots are taken.
func (t *adapters) use(name string, slots int) *adapter {
	if a := t.find(name); a != nil {
		a.used.Store(t.clock.Add(1))
		return a
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.find(name); a != nil {
		a.used.Store(t.clock.Add(1))
		return a
	}
	var next []loaded
	if list := t.list.Load(); list != nil {
		next = append(next, *list...)
	}
	for len(next) >= max(slots, 1) {
		i := oldest(next)
		if i < 0 {
			break // all pinned by requests: the engine defers the newcomer
		}
		next = append(next[:i], next[i+1:]...)
	}
	a := new(adapter)
	a.used.Store(t.clock.Add(1))
	next = append(next, loaded{name, a})
	t.list.Store(&next)
	return a
}

func oldest(list []loaded) int {
	best := -1
	for i, a := range list {
		if a.inFlight.Load() == 0 && (best < 0 || a.used.Load() < list[best].used.Load()) {
			best = i
		}
	}
	return best
}

// clear forgets every adapter: the engine lost them.
func (t *adapters) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list.Store(nil)
}

// Holds reports whether the replica probably has the adapter loaded: it is
// among the most recently used ones, as many as the engine has slots for.
func (r *Replica) Holds(adapter string) bool { return r.adapters.find(adapter) != nil }

// Adapters returns how many adapters the replica probably has loaded, and
// how many it has slots for.
func (r *Replica) Adapters() (held, slots int) {
	if list := r.adapters.list.Load(); list != nil {
		held = len(*list)
	}
	return held, r.maxLoRA()
}

func (r *Replica) maxLoRA() int {
	if rep := r.report.Load(); rep != nil && rep.state.MaxLoRA > 0 {
		return rep.state.MaxLoRA
	}
	return r.config().MaxLoRA
}
