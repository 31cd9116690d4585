package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/vllm"
)

// search is what the lookups of a pool's replicas depend on; zero without any.
type search struct {
	dnsConfig
	networks string // separated by spaces
}

func (pc *poolConfig) search() search {
	if pc.DNS.Host == "" {
		return search{}
	}
	s := search{pc.DNS, strings.Join(pc.Networks, " ")}
	s.Scheme = pc.scheme()
	return s
}

// config is s for the library. Addresses that would not be connected to are no
// replicas.
func (s search) config() registry.DNSConfig {
	dialer := &vllm.Dialer{Allow: parseNetworks(s.networks)}
	return registry.DNSConfig{
		Host: s.Host, Port: s.Port, Scheme: s.Scheme, Zone: s.Zone,
		Interval: s.Interval, Timeout: s.Timeout, Misses: s.Misses,
		Usable: dialer.Allowed,
	}
}

// discovery fills one pool with what is found by a search.
type discovery struct {
	search search
	dns    *registry.DNS
	cancel context.CancelFunc // of the lookups
	ended  chan struct{}      // closed when there are no more
}

// run looks again and again until end.
func (d *discovery) run() {
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel, d.ended = cancel, make(chan struct{})
	go func() {
		defer close(d.ended)
		_ = d.dns.Run(ctx) // it returns why ctx ended
	}()
}

// end returns when the lookups are over. The replicas stay.
func (d *discovery) end() {
	d.cancel()
	<-d.ended
}

// renewal is what becomes of the discovery of one pool.
type renewal struct {
	pool string
	old  *discovery // nil if there was none
	next *discovery // the same if its search did not change; nil if there is none
	lost error      // why next has no answer
}

// ask looks new searches up, and those that have found nothing for a pool
// without a listed replica. It fills the pools of p with what they are to have,
// and changes nothing else yet.
func (g *gateway) ask(ctx context.Context, p parts) []renewal {
	out := make([]renewal, len(p.searches))
	var asked sync.WaitGroup
	for i, s := range p.searches {
		r := &out[i]
		r.pool = p.pools[i].Name()
		r.old = g.discoveries[r.pool]
		if r.old != nil && r.old.search == s {
			r.next = r.old
			if r.fill(p.pools[i]); len(p.pools[i].Replicas()) == 0 {
				asked.Go(func() { r.lost = r.next.dns.Ask(ctx) })
			}
			continue
		}
		pool, ok := g.registry.Pool(r.pool)
		if !ok {
			pool = p.pools[i] // which the registry will have
		}
		if r.next, r.lost = g.newDiscovery(pool, s); r.next != nil {
			asked.Go(func() { r.lost = r.next.dns.Ask(ctx) })
		}
	}
	asked.Wait()
	for i := range out {
		out[i].fill(p.pools[i])
	}
	return out
}

// fill gives pool, which is to be the renewed one, what is found for it.
func (r *renewal) fill(pool *registry.Pool) {
	switch {
	case r.next == nil:
	case r.old == nil || r.old == r.next:
		r.next.dns.Fill(pool, nil)
	default:
		r.next.dns.Fill(pool, r.old.dns)
	}
}

// follow makes lookups what ask found, after the registry has its pools. A
// search that did not change goes on. One that did takes over what the former
// found, and that of a pool without one leaves.
func (g *gateway) follow(renewals []renewal) {
	next := make(map[string]*discovery)
	for _, r := range renewals {
		delete(g.discoveries, r.pool)
		if r.next != nil {
			next[r.pool] = r.next
		}
		switch {
		case r.next == r.old:
			if r.old != nil {
				_ = r.old.dns.Refill() // told to those who are called, as all errors here
			}
			continue
		case r.old != nil:
			r.old.end()
		}
		if r.next == nil {
			r.old.dns.Leave()
			continue
		}
		if r.old != nil {
			r.next.dns.Inherit(r.old.dns)
		}
		_ = r.next.dns.Follow()
		r.next.run()
	}
	g.endDiscoveries() // of pools that are no more; requests on them keep their replicas
	g.discoveries = next
}

// replace makes pools and lookups what p says, or leaves all as it was. Names
// are looked up before, which may take a while.
func (g *gateway) replace(ctx context.Context, p parts) error {
	renewals := g.ask(ctx, p)
	if ctx.Err() != nil { // what could not be looked up says nothing of the file
		return context.Cause(ctx)
	}
	if err := refuse(p, renewals); err != nil && !g.without {
		return err
	}
	drained := drains(p.pools)
	if err := g.registry.Replace(p.pools...); err != nil {
		return err
	}
	drain(g.registry.Pools(), drained)
	g.follow(renewals)
	return nil
}

// discover is ask and follow; lost says for each pool why its lookup gave
// nothing.
func (g *gateway) discover(ctx context.Context, p parts) (lost []error) {
	renewals := g.ask(ctx, p)
	g.follow(renewals)
	for _, r := range renewals {
		lost = append(lost, r.lost)
	}
	return lost
}

// refuse says which pools of p would have no replica that can be used, because
// those that they are to have from now on could not be looked up.
func refuse(p parts, renewals []renewal) error {
	for i, r := range renewals {
		if r.lost != nil && len(p.pools[i].Replicas()) == 0 {
			return fmt.Errorf("pool %q would have no replica: %w; -without-replicas goes on anyway", r.pool, r.lost)
		}
	}
	return nil
}

// newDiscovery returns a discovery that has not begun, nil for no search.
func (g *gateway) newDiscovery(pool *registry.Pool, s search) (*discovery, error) {
	if s == (search{}) {
		return nil, nil
	}
	cfg := s.config()
	cfg.Resolver = g.resolver
	logger := g.logger.With("pool", pool.Name(), "host", s.Host)
	cfg.OnOutage = func(err error) {
		switch {
		case err == nil:
			logger.Info("replicas can be looked up")
		case len(pool.Replicas()) == 0:
			logger.Warn("replicas cannot be looked up; the pool has none", "error", err)
		default:
			logger.Warn("replicas cannot be looked up; the pool keeps those that it has", "error", err)
		}
	}
	cfg.OnError = func(err error) { logger.Debug("a lookup failed, wholly or for one family of addresses", "error", err) }
	cfg.OnChange = func(joined, left []*registry.Replica) {
		logger.Info("replicas changed", "joined", namesOf(joined), "left", namesOf(left))
	}
	cfg.OnLeftOut = func(err error) {
		if err != nil {
			logger.Warn("a replica that was found is left out", "error", err)
			return
		}
		logger.Info("no replica that was found is left out any more")
	}
	dns, err := registry.NewDNS(pool, cfg)
	if err != nil {
		return nil, err
	}
	return &discovery{search: s, dns: dns}, nil
}

func namesOf(replicas []*registry.Replica) string {
	names := make([]string, len(replicas))
	for i, r := range replicas {
		names[i] = r.Name()
	}
	return strings.Join(names, " ")
}

// endDiscoveries ends all lookups.
func (g *gateway) endDiscoveries() {
	for _, d := range g.discoveries {
		d.end()
	}
	g.discoveries = nil
}
