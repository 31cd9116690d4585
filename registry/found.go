package registry

import (
	"errors"
	"net/url"
	"slices"
)

// exchange takes those of leaving out of p that a discovery added and that
// were not listed since, and makes joining members as a discovery does, in one
// step: nobody sees the pool in between. An address that a member has is left
// to it; any other mistake is in err.
func (p *Pool) exchange(leaving []*Replica, joining []ReplicaConfig) (joined, left []*Replica, err error) {
	targets := make([]*url.URL, len(joining))
	errs := make([]error, len(joining))
	for i := range joining {
		targets[i], errs[i] = joining[i].complete()
	}
	p.mu.Lock()
	old := p.Replicas()
	next := make([]*Replica, 0, len(old)+len(joining))
	for _, r := range old {
		if r.found && slices.Contains(leaving, r) {
			left = append(left, r)
			continue
		}
		next = append(next, r)
	}
	for i, cfg := range joining {
		if errs[i] != nil {
			continue
		}
		if errs[i] = p.clash(next, cfg.Name, targets[i]); errs[i] == nil {
			r := p.newReplica(cfg, targets[i], freeSlot(next))
			r.found = true
			next, joined = append(next, r), append(joined, r)
		} else if errors.Is(errs[i], errAddressTaken) {
			errs[i] = nil
		}
	}
	changed := len(joined)+len(left) > 0
	if changed {
		p.replaceLocked(next, left)
	}
	p.mu.Unlock()
	if changed {
		p.tell()
		p.changed()
	}
	return joined, left, errors.Join(errs...)
}

// replaceLocked makes next the members, those that left not among them.
func (p *Pool) replaceLocked(next, left []*Replica) {
	for _, r := range left {
		r.out.Or(removed)
	}
	p.storeLocked(next)
	p.uncapLocked()
}

// holds reports whether r is a member that a discovery added and that was not
// listed since.
func (p *Pool) holds(r *Replica) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.found && !r.is(removed)
}

// foundAt returns the member at url that a discovery added and that was not
// listed since, or nil.
func (p *Pool) foundAt(url string) *Replica {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.Replicas() {
		if r.found && r.url == url {
			return r
		}
	}
	return nil
}

// rezone says where a member that a discovery added runs.
func (p *Pool) rezone(r *Replica, zone string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.found {
		r.traits.Store(&traits{zone: zone, weight: r.Weight()})
	}
}
