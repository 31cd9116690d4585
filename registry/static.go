package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Registry finds pools by name. Pool must be safe for concurrent use and must
// not block; the same name gives the same *Pool for as long as it exists.
type Registry interface {
	Pool(name string) (*Pool, bool)
}

// Static is a Registry of pools given by the program, replaced as a whole by
// Replace. Use NewStatic.
type Static struct {
	pools atomic.Pointer[map[string]*Pool]
	mu    sync.Mutex // held by Replace
}

// NewStatic returns a registry of the given pools. Their names must differ.
func NewStatic(pools ...*Pool) (*Static, error) {
	s := new(Static)
	s.pools.Store(new(map[string]*Pool))
	if err := s.Replace(pools...); err != nil {
		return nil, err
	}
	return s, nil
}

// Pool returns the pool called name.
func (s *Static) Pool(name string) (*Pool, bool) {
	p, ok := (*s.pools.Load())[name]
	return p, ok
}

// Pools returns all pools in order of name.
func (s *Static) Pools() []*Pool {
	m := *s.pools.Load()
	out := make([]*Pool, 0, len(m))
	for _, p := range m {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *Pool) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return out
}

// Replace makes pools the registry's contents. A pool whose name is known
// stays the same *Pool: it takes over the new one's configuration and
// members, and members with the same name and URL stay the same *Replica,
// with their ledger, state, health and slot. So do members that a [DNS] added,
// unless one of the new members has their name or address; who stops that DNS
// lets it take them along with [DNS.Leave]. [DNS.Fill] gives new pools what a
// DNS is to have in them. The *Pool given for a name that is
// known is then not in use. When pools are invalid nothing is changed.
func (s *Static) Replace(pools ...*Pool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := distinct(pools); err != nil {
		return err
	}
	old := *s.pools.Load()
	next := make(map[string]*Pool, len(pools))
	var changed []*Pool
	for _, p := range pools {
		if o, ok := old[p.name]; ok && o != p {
			o.adopt(p)
			changed = append(changed, o)
			p = o
		}
		next[p.name] = p
	}
	s.pools.Store(&next)
	for _, p := range changed {
		p.tell()
		p.changed()
	}
	return nil
}

func distinct(pools []*Pool) error {
	var errs []error
	seen := make(map[string]bool, len(pools))
	for _, p := range pools {
		switch {
		case p == nil:
			errs = append(errs, errors.New("registry: pools: expected a pool, got nil"))
		case seen[p.name]:
			errs = append(errs, fmt.Errorf("registry: pool %q: name is taken", p.name))
		default:
			seen[p.name] = true
		}
	}
	return errors.Join(errs...)
}

// adopt makes p like n: its configuration, and its members in n's order, old
// members kept where name and URL are the same. Members that a discovery added
// stay, after those of n, unless n has the name or the address.
func (p *Pool) adopt(n *Pool) {
	wanted := n.Replicas()
	cfg := n.Config()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg.Store(&cfg)
	old := make(map[string]*Replica)
	for _, r := range p.Replicas() {
		old[r.name] = r
	}
	next := make([]*Replica, len(wanted), len(wanted)+len(old)) // nil where a new one comes
	var staying []*Replica
	for i, w := range wanted {
		if r := old[w.name]; r != nil && r.url == w.url {
			r.traits.Store(w.traits.Load())
			r.found = w.found
			delete(old, w.name)
			next[i], staying = r, append(staying, r)
		}
	}
	for _, r := range p.Replicas() {
		if r.found && old[r.name] == r && p.clash(wanted, r.name, r.target) == nil {
			delete(old, r.name)
			next, staying = append(next, r), append(staying, r)
		}
	}
	for i, w := range wanted {
		if next[i] == nil {
			rc := ReplicaConfig{Name: w.name, URL: w.url, Zone: w.Zone(), Weight: w.Weight()}
			next[i] = p.newReplica(rc, w.target, freeSlot(staying))
			next[i].found = w.found
			staying = append(staying, next[i])
		}
	}
	kvTokens := p.assumed(cfg.KVTokens)
	for _, r := range next {
		r.assume(kvTokens)
	}
	p.replaceLocked(next, slices.Collect(maps.Values(old)))
}

// assume gives r a KV capacity until it reports its own.
func (r *Replica) assume(kvTokens int64) {
	full := r.capacity.Load()
	if s := r.State(); s == nil || s.KVTokens == 0 {
		full = kvTokens
	}
	r.setCapacity(full)
}

// assumed returns the KV capacity of a replica that has not reported its own: what
// is configured, or else the least that a member has reported, so that a whole line
// does not go to one that has just joined. 0 means that nobody knows.
func (p *Pool) assumed(configured int) int64 {
	least := int64(configured)
	if configured > 0 {
		return least
	}
	for _, r := range p.Replicas() {
		if s := r.State(); s != nil && s.KVTokens > 0 && (least == 0 || int64(s.KVTokens) < least) {
			least = int64(s.KVTokens)
		}
	}
	return least
}
