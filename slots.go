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
