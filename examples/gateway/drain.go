package main

import "github.com/expediterhq/expediter/registry"

// member names a replica across reloads, which keep those that stay.
type member struct{ pool, replica string }

// drains returns the replicas of pools that are to get no further requests.
func drains(pools []*registry.Pool) map[member]bool {
	out := make(map[member]bool)
	for _, p := range pools {
		for _, r := range p.Replicas() {
			out[member{p.Name(), r.Name()}] = r.Draining()
		}
	}
	return out
}

// drain makes pools do as the configuration says: a replica that is drained
// finishes what it has, one that no longer is takes requests again.
func drain(pools []*registry.Pool, as map[member]bool) {
	for _, p := range pools {
		for _, r := range p.Replicas() {
			switch want := as[member{p.Name(), r.Name()}]; {
			case want && !r.Draining():
				r.Drain()
			case !want && r.Draining():
				r.Resume()
			}
		}
	}
}
