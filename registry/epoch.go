package registry

import "net/url"

// Epoch grows whenever a replica joins the pool or restarts: while it stays
// the same, no slot has changed its occupant.
func (p *Pool) Epoch() uint64 { return p.generations.Load() }

// Target returns the replica's base address, parsed. It must not be changed.
func (r *Replica) Target() *url.URL { return r.target }
