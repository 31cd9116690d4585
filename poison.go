package expediter

import (
	"sync"
	"time"
)

const (
	poisonMemory   = 10 * time.Minute
	poisonMax      = 1024 // requests remembered; the oldest is forgotten first
	poisonReplicas = 16   // replicas remembered per request
)

// poison remembers which requests took a replica down, so that one request
// cannot walk through the fleet. A request is known by the hash of its body,
// a replica by name and generation. Safe for concurrent use.
type poison struct {
	mu    sync.Mutex
	kills map[uint64]*kill
}

type kill struct {
	replicas []string
	last     time.Time
}

func newPoison() *poison { return &poison{kills: make(map[uint64]*kill)} }

// add notes that replica went down with the request fingerprint on it.
func (p *poison) add(fingerprint uint64, replica string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kills[fingerprint]
	if k == nil || now.Sub(k.last) > poisonMemory {
		p.makeRoomLocked(now)
		k = new(kill)
		p.kills[fingerprint] = k
	}
	k.last = now
	for _, r := range k.replicas {
		if r == replica {
			return
		}
	}
	if len(k.replicas) < poisonReplicas {
		k.replicas = append(k.replicas, replica)
	}
}

// count returns how many replicas the request took down of late.
func (p *poison) count(fingerprint uint64, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kills[fingerprint]
	if k == nil || now.Sub(k.last) > poisonMemory {
		return 0
	}
	return len(k.replicas)
}

func (p *poison) makeRoomLocked(now time.Time) {
	if len(p.kills) < poisonMax {
		return
	}
	var oldest uint64
	at := now
	for f, k := range p.kills {
		if now.Sub(k.last) > poisonMemory {
			delete(p.kills, f)
		} else if !k.last.After(at) {
			oldest, at = f, k.last
		}
	}
	if len(p.kills) >= poisonMax {
		delete(p.kills, oldest)
	}
}
