package main

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/expediterhq/expediter/registry"
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

// config is s for the library.
func (s search) config() registry.DNSConfig {
	return registry.DNSConfig{
		Host: s.Host, Port: s.Port, Scheme: s.Scheme, Zone: s.Zone, Interval: s.Interval,
		Allow: parseNetworks(s.networks),
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

// discover makes lookups what p says, after the registry has its pools. A
// search that did not change goes on. One that did takes over what the former
// found, and that of a pool without one leaves. New searches have looked once
// when discover returns; lost says for each pool why that gave nothing.
func (g *gateway) discover(ctx context.Context, p parts) (lost []error) {
	lost = make([]error, len(p.searches))
	next := make(map[string]*discovery)
	var began sync.WaitGroup
	for i, s := range p.searches {
		name := p.pools[i].Name()
		old := g.discoveries[name]
		delete(g.discoveries, name)
		if old != nil && old.search == s {
			next[name] = old
			g.refill(name, old)
			continue
		}
		if old != nil {
			old.end()
		}
		d, err := g.newDiscovery(name, s)
		if lost[i] = err; d != nil {
			next[name] = d
			began.Go(func() {
				if old != nil {
					d.dns.Inherit(old.dns)
				}
				lost[i] = d.dns.Look(ctx)
				d.run()
			})
		} else if old != nil {
			old.dns.Leave()
		}
	}
	began.Wait()
	g.endDiscoveries() // of pools that are no more; requests on them keep their replicas
	g.discoveries = next
	return lost
}

// refill gives a pool back what was found and is listed no longer.
func (g *gateway) refill(pool string, d *discovery) {
	if err := d.dns.Refill(); err != nil {
		g.logger.Warn("a replica that was found is left out", "pool", pool, "error", err)
	}
}

// newDiscovery returns a discovery that has not begun, nil for no search.
func (g *gateway) newDiscovery(pool string, s search) (*discovery, error) {
	if s == (search{}) {
		return nil, nil
	}
	p, ok := g.registry.Pool(pool)
	if !ok {
		return nil, errors.New("the pool is gone") // it was given to the registry
	}
	cfg := s.config()
	cfg.Resolver = g.resolver
	logger := g.logger.With("pool", pool, "host", s.Host)
	cfg.OnOutage = func(err error) {
		if err != nil {
			logger.Warn("replicas cannot be looked up; those that were found stay", "error", err)
			return
		}
		logger.Info("replicas can be looked up")
	}
	cfg.OnChange = func(joined, left []*registry.Replica) {
		logger.Info("replicas changed", "joined", namesOf(joined), "left", namesOf(left))
	}
	dns, err := registry.NewDNS(p, cfg)
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
