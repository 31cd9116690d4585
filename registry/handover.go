package registry

import (
	"fmt"
	"strings"
)

// Inherit makes d the keeper of the members that old keeps of the same pool.
// Those that d finds too stay the same *Replica; the others leave with the
// first answer that d follows, so that there is no time without any. Old keeps
// nothing then, and its Run must have returned. It is called before d's first
// Follow or Look, between Ask and Follow at the latest.
//
// Members that d does not allow, or that old reaches by http and d is to reach
// by https, leave with the first Follow or Look of d in any case.
//
// It panics if old is of another pool.
func (d *DNS) Inherit(old *DNS) {
	if old.pool != d.pool {
		panic(fmt.Sprintf("registry: DNS.Inherit: expected a DNS of the same pool %q, got one of pool %q", d.pool.name, old.pool.name))
	}
	old.mu.Lock()
	members := old.members
	old.members, old.filled, old.last, old.answer = map[string]*found{}, nil, nil, nil
	same := old.cfg.Host == d.cfg.Host && old.cfg.Port == d.cfg.Port && old.cfg.Scheme == d.cfg.Scheme
	old.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for url, m := range members {
		if !same || !d.allowed(m.addr) {
			m.misses = d.cfg.Misses - 1
		}
		d.pool.rezone(m.replica, d.cfg.Zone)
		d.members[url] = m
	}
}

// dropUseless takes away members that were inherited and that d would not find:
// they are not allowed, or reached without TLS, which d was told to use.
func (d *DNS) dropUseless(claimed []*Replica) {
	var leaving []*Replica
	for url, m := range d.members {
		if !d.secure(url) || !d.allowed(m.addr) {
			leaving = append(leaving, m.replica)
			delete(d.members, url)
		}
	}
	_ = d.exchange(leaving, nil, claimed) // nothing joins, so that nothing can be wrong
}

// secure reports whether url is as safe as d is to be.
func (d *DNS) secure(url string) bool {
	return d.cfg.Scheme != "https" || !strings.HasPrefix(url, "http://")
}

// Leave takes the members that d added out of the pool; what is in flight on
// them goes on. Run must have returned.
func (d *DNS) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	leaving := make([]*Replica, 0, len(d.members))
	for _, m := range d.members {
		leaving = append(leaving, m.replica)
	}
	clear(d.members)
	d.filled, d.last, d.answer = nil, nil, nil
	_ = d.exchange(leaving, nil, nil) // nothing joins, so that nothing can be wrong
}
