package expediter

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/expediterhq/expediter/registry"
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

// kill is what is remembered of one request.
type kill struct {
	replicas  []string // that went down
	suspects  []string // that lost a kept connection with the request on it: they may have been about to close it anyway
	undecided []loss   // of which it is not known yet whether the replica went down, one for a replica
	last      time.Time
}

// loss is a connection that was lost with the request on it, to a replica that
// accepted another right after. So does a process that is started again, or
// whatever stands before one that is down: the replica's next report tells.
type loss struct {
	replica    *registry.Replica
	generation uint64
	at, last   time.Time // the first such loss, and the latest
}

func (l loss) who() string { return one(l.replica.Name(), l.generation) }

// one names a replica as it is from one start to the next.
func one(name string, generation uint64) string {
	return name + "#" + strconv.FormatUint(generation, 10)
}

func newPoison() *poison { return &poison{kills: make(map[uint64]*kill)} }

// add notes that replica went down with the request fingerprint on it, which
// makes those it was suspected of certain too.
func (p *poison) add(fingerprint uint64, replica string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.ofLocked(fingerprint, now)
	for _, r := range append(k.suspects, replica) {
		k.convictLocked(r)
	}
	k.suspects = nil
	k.undecided = slices.DeleteFunc(k.undecided, func(l loss) bool { return slices.Contains(k.replicas, l.who()) })
}

// lost notes that a connection was lost with the request on it.
func (p *poison) lost(fingerprint uint64, l loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.ofLocked(fingerprint, l.at)
	k.judgeLocked() // a report since an earlier loss is about that one
	for i, o := range k.undecided {
		if o.who() == l.who() {
			k.undecided[i].last = l.last
			return
		}
	}
	if len(k.undecided) < poisonReplicas && !slices.Contains(k.replicas, l.who()) {
		k.undecided = append(k.undecided, l)
	}
}

// convict decides against the replicas that no report came of since they were
// lost at or before a time. Others with the same body may have lost some since.
func (p *poison) convict(fingerprint uint64, before, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.ofLocked(fingerprint, now)
	k.judgeLocked()
	k.undecided = slices.DeleteFunc(k.undecided, func(l loss) bool {
		if l.at.After(before) {
			return false
		}
		k.convictLocked(l.who())
		return true
	})
}

// suspect notes that a kept connection to replica was lost as soon as the
// request was on it, and reports whether that may be chance: not if another
// replica was lost with the same request and none has answered it since.
func (p *poison) suspect(fingerprint uint64, replica string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.ofLocked(fingerprint, now)
	for _, r := range slices.Concat(k.replicas, k.suspects) {
		if r != replica {
			return false
		}
	}
	for _, l := range k.undecided {
		if l.who() != replica {
			return false
		}
	}
	k.suspects = append(k.suspects[:0], replica)
	return true
}

// clear forgets what a request is suspected of: a replica has answered it, so
// others went down with it by chance, as in a restart of the fleet.
func (p *poison) clear(fingerprint uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.kills, fingerprint)
}

// ofLocked returns what is remembered of a request, to be added to.
func (p *poison) ofLocked(fingerprint uint64, now time.Time) *kill {
	k := p.kills[fingerprint]
	if k == nil || now.Sub(k.last) > poisonMemory {
		p.makeRoomLocked(now)
		k = new(kill)
		p.kills[fingerprint] = k
	}
	k.last = now
	return k
}

// count returns how many replicas the request took down of late, and how many
// it may have taken down besides.
func (p *poison) count(fingerprint uint64, now time.Time) (certain, undecided int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kills[fingerprint]
	if k == nil || now.Sub(k.last) > poisonMemory {
		return 0, 0
	}
	k.judgeLocked()
	return len(k.replicas), len(k.undecided)
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
