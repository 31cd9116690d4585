package expediter

import (
	"sync"

	"github.com/expediterhq/expediter/registry"
)

// slots remembers who holds each slot of a pool's prefix map, so that what
// was known of a replica that left or restarted is forgotten. It is shared by
// all generations of the pool that use the same map.
type slots struct {
	mu    sync.Mutex
	epoch uint64
	held  map[int]occupant
}

// occupant is who holds a slot of the prefix map.
type occupant struct {
	replica    *registry.Replica
	generation uint64
	blocks     int // the size of its KV cache as the prefix map was told
}

// forgetChanged drops from m the slots whose replica left or restarted since
// the last call.
func (s *slots) forgetChanged(m PrefixMap, pool *registry.Pool) {
	epoch := pool.Epoch()
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch == s.epoch {
		return
	}
	s.epoch = epoch
	held := make(map[int]occupant, len(s.held))
	for _, r := range pool.Replicas() {
		held[r.Slot()] = occupant{replica: r, generation: r.Generation()}
	}
	for slot, who := range s.held {
		now := held[slot]
		if now.replica != who.replica || now.generation != who.generation {
			m.Forget(slot)
			continue
		}
		held[slot] = who
	}
	s.held = held
}

// add tells m that r, in its life of that generation, gets blocks, unless its
// slot is another's by now.
func (s *slots) add(m PrefixMap, r *registry.Replica, generation uint64, blocks []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holdsLocked(r, generation) {
		m.Add(r.Slot(), blocks)
	}
}

// holdsLocked reports whether what m holds under r's slot is of r, in its life
// of that generation. Requests outlive the membership of their replica, whose
// slot goes to the next that joins.
func (s *slots) holdsLocked(r *registry.Replica, generation uint64) bool {
	who := s.held[r.Slot()]
	return who.replica == r && who.generation == generation
}

// cacheObserver is a PrefixMap that learns from what the engine reports: of
// the blocks that a slot was believed to hold, it held so many; -1 if it did
// not say.
type cacheObserver interface {
	Observe(slot, predicted, cached int)
}

// observe tells m what r, in its life of that generation, was found to hold,
// unless its slot is another's by now.
func (s *slots) observe(m PrefixMap, r *registry.Replica, generation uint64, predicted, cached int) {
	o, ok := m.(cacheObserver)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holdsLocked(r, generation) {
		o.Observe(r.Slot(), predicted, cached)
	}
}

// sizedMap is a PrefixMap that can be told how many blocks a replica holds.
type sizedMap interface{ SetBlocks(slot, n int) }

// fit makes m as large as r's KV cache.
func (s *slots) fit(m PrefixMap, r *registry.Replica, blockSize int) {
	sized, ok := m.(sizedMap)
	full, _ := r.Capacity()
	if !ok || full == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if who := s.held[r.Slot()]; who.replica == r && who.blocks != full/blockSize {
		who.blocks = full / blockSize
		s.held[r.Slot()] = who
		sized.SetBlocks(r.Slot(), who.blocks)
	}
}
