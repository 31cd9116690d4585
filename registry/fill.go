package registry

import (
	"net/netip"
	"slices"
)

// Fill adds to next, which is to replace d's pool by [Static.Replace], what d
// will have in that, so that the replacement leaves no time without it: what d
// keeps or has an answer for, or, if that is nothing, what d can use of the
// members that it is to inherit from old, which may be nil. A replica that next
// has by the same name or address goes before it. Nothing is looked up.
//
// It is called between Ask and Replace, which is followed by the first Follow of
// d, or by Refill if there was one. If next is not put in place, Fill has changed
// nothing.
func (d *DNS) Fill(next *Pool, old *DNS) {
	var inherited []*found
	if old != nil {
		inherited = old.kept()
	}
	kept := d.kept()
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := d.last
	if d.answer != nil {
		answer = d.answer
	}
	d.filled = d.filled[:0]
	if d.lasting = 1; d.begun {
		d.lasting = fillLasts
	}
	for _, a := range answer {
		d.filled = append(d.filled, filling{d.replica(a), a})
	}
	if d.answer == nil {
		d.fillUsable(kept)
	}
	if len(d.filled) == 0 {
		d.fillUsable(inherited)
	}
	joining := make([]ReplicaConfig, len(d.filled))
	for i, f := range d.filled {
		joining[i] = f.ReplicaConfig
	}
	_, _, _ = next.exchange(nil, joining) // Follow tells what is wrong
}

// fillLasts is how many lookups find what Fill left: two may come before Refill.
// What stayed in filled for ever might be another DNS's by the time that it is
// claimed.
const fillLasts = 3

// filling is a replica that Fill gives to a pool.
type filling struct {
	ReplicaConfig
	addr netip.Addr
}

// kept returns the members that d keeps, in order of joining.
func (d *DNS) kept() []*found {
	d.mu.Lock()
	defer d.mu.Unlock()
	var kept []*found
	for _, r := range d.pool.Replicas() {
		if m := d.members[r.url]; m != nil && m.replica == r && d.pool.holds(r) {
			kept = append(kept, m)
		}
	}
	return kept
}

// fillUsable adds those of members that d allows and reaches as it is told to.
func (d *DNS) fillUsable(members []*found) {
	for _, m := range members {
		if r := m.replica; d.allowed(m.addr) && d.secure(r.url) {
			d.filled = append(d.filled, filling{ReplicaConfig{Name: r.name, URL: r.url, Zone: d.cfg.Zone}, m.addr})
		}
	}
}

// claim makes d the keeper of what came into its pool by Fill, and returns it.
// What the last answer did not hold leaves with the next.
func (d *DNS) claim() (claimed []*Replica) {
	for _, f := range d.filled {
		if m := d.members[f.URL]; m != nil && d.pool.holds(m.replica) {
			continue
		}
		r := d.pool.foundAt(f.URL)
		if r == nil {
			continue
		}
		m := &found{replica: r, addr: f.addr}
		if !slices.Contains(d.last, f.addr) {
			m.misses = d.cfg.Misses - 1
		}
		d.members[f.URL] = m
		claimed = append(claimed, r)
	}
	d.begun = true
	if d.lasting--; d.lasting <= 0 {
		d.filled = nil
	}
	return claimed
}
