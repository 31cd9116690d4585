package registry

import (
	"sync"
	"sync/atomic"
	"time"
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
// one without requests in flight when all slots are taken. loads reports
// whether the engine will have to load it into a slot that is free or can be
// freed at once.
func (t *adapters) use(name string, slots int) (a *adapter, loads bool) {
	if a := t.find(name); a != nil {
		a.used.Store(t.clock.Add(1))
		return a, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.find(name); a != nil {
		a.used.Store(t.clock.Add(1))
		return a, false
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
	a = new(adapter)
	a.used.Store(t.clock.Add(1))
	next = append(next, loaded{name, a})
	t.list.Store(&next)
	return a, len(next) <= max(slots, 1)
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

// Adapters returns how many adapters the replica probably has loaded, how
// many of them have requests of this process in flight, so that they cannot
// be replaced, and how many it has slots for.
func (r *Replica) Adapters() (held, pinned, slots int) {
	if list := r.adapters.list.Load(); list != nil {
		held = len(*list)
		for i := range *list {
			if (*list)[i].inFlight.Load() > 0 {
				pinned++
			}
		}
	}
	return held, pinned, r.maxLoRA()
}

func (r *Replica) maxLoRA() int {
	if rep := r.report.Load(); rep != nil && rep.state.MaxLoRA > 0 {
		return rep.state.MaxLoRA
	}
	return r.config().MaxLoRA
}

// AdapterLoad returns how long the pool's replicas take to load a LoRA
// adapter: [PoolConfig.AdapterLoad] at first, then learned from how much later
// than usual the first token came when an adapter had to be loaded.
func (p *Pool) AdapterLoad() time.Duration {
	if v := p.adapterLoad.value(); v > 0 {
		return time.Duration(v * float64(time.Second))
	}
	return p.cfg.Load().AdapterLoad
}

// learnAdapterLoad takes one observation: the first token came elapsed after
// dispatch, an adapter's loading included, with pending prompt tokens ahead.
func (r *Replica) learnAdapterLoad(pending int64, elapsed time.Duration) {
	usual := float64(pending) / r.PrefillRate()
	if r.line.mu.TryLock() {
		usual += r.line.start
		r.line.mu.Unlock()
	}
	load := &r.pool.adapterLoad
	was := load.value()
	if was == 0 {
		was = r.config().AdapterLoad.Seconds()
	}
	sample := clamp(elapsed.Seconds()-usual, minAdapterLoad, maxAdapterLoad)
	load.set(blend(was, sample, adapterShare))
}

const (
	// Bounds of what is believed of an adapter's loading, in seconds.
	minAdapterLoad = 0.001
	maxAdapterLoad = 30
	// Loads are rare, and a wrong belief makes more of them: learn fast.
	adapterShare = 0.3
)
