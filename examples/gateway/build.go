package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/tenant"
	"github.com/expediterhq/expediter/tokenize"
)

// parts is everything a configuration describes, made ready but not started.
type parts struct {
	config    expediter.Config
	pools     []*registry.Pool
	upstreams []upstream // of each pool
	searches  []search   // of each pool
	keys      []tenant.Key
	keyConf   tenant.Config
	names     metrics.Names
	file      *mistakes // that it was read from
	router    *router.Router
}

// build makes the parts of c and adds every mistake in it to m. A part with a
// mistake is made as well as it can be, so that the others are still judged.
func build(c *config, m *mistakes) parts {
	checkBounds(c, m)
	p := parts{config: expediter.Config{
		Limits:   c.Limits.library(),
		Timeouts: c.Timeouts.library(),
		Retry:    c.Retry.library(),
		Scrape:   c.Scrape,
	}}
	p.router = router.New(router.Config{Scorers: scorers(c)})
	for i := range c.Pools {
		p.addPool(fmt.Sprintf("pools[%d]", i), &c.Pools[i], m)
	}
	for _, mc := range c.Models {
		p.config.Models = append(p.config.Models, expediter.Model{Name: mc.Name, Pool: mc.Pool, Adapter: mc.Adapter})
		p.names.Models = append(p.names.Models, mc.Name)
	}
	p.addTenants(c, m)
	checkAddresses(c, m)
	checkUsage(&c.Usage, m)
	checkTLS(c, m)
	checkRedis(&c.Redis, c.Usage.Stream, m)
	p.judge(m)
	return p
}

// scorers are the rule by which replicas are chosen: the default one, and the
// gateway's zone if it has one.
func scorers(c *config) []router.Scorer {
	list := router.Default()
	if c.Zone != "" {
		list = append(list, router.Zone{Local: c.Zone})
	}
	return list
}

func (p *parts) addPool(at string, pc *poolConfig, m *mistakes) {
	// The library's Config tells of a name that is missing.
	cfg := registry.PoolConfig{Name: cmp.Or(pc.Name, at), Headroom: pc.Headroom, KVTokens: pc.KVTokens}
	pool, err := registry.NewPool(cfg)
	if err != nil {
		m.addError(at, pc, err)
		if pool, err = registry.NewPool(registry.PoolConfig{Name: cfg.Name}); err != nil {
			m.add(at, "%v", err)
			return
		}
	}
	if pc.checkDNS(at, pool, m); len(pc.Replicas) == 0 && m.lines[at+".dns"] == 0 {
		m.add(at+".replicas", "expected at least one replica, such as http://10.0.0.1:8000, or dns beside it")
	}
	addReplicas(pool, at, pc.Replicas, m)
	pc.checkUpstream(at, m)
	out := expediter.Pool{
		Name: pc.Name, Served: pc.Served, Router: p.router,
		MaxModelLen: pc.MaxModelLen, DefaultMaxTokens: pc.DefaultMaxTokens, MaxTokens: pc.MaxTokens,
		MaxWait: pc.MaxWait, TTFT: pc.SLO.TTFT, TPOT: pc.SLO.TPOT,
		APIKey: fromEnv(at+".api_key_env", pc.APIKeyEnv, m),
	}
	if pc.Tokenizer != "" {
		out.Tokenizer, err = tokenize.Load(os.DirFS(pc.Tokenizer))
		if err != nil {
			m.add(at+".tokenizer", "cannot load the model directory %q: %s", pc.Tokenizer, strings.TrimPrefix(err.Error(), "tokenize: "))
		}
	}
	p.pools = append(p.pools, pool)
	p.upstreams = append(p.upstreams, pc.upstream())
	p.searches = append(p.searches, pc.search())
	p.names.Pools = append(p.names.Pools, pc.Name)
	p.config.Pools = append(p.config.Pools, out)
}

func addReplicas(pool *registry.Pool, at string, replicas []replicaConfig, m *mistakes) {
	names := make(map[string]int)
	for i, r := range replicas {
		here := fmt.Sprintf("%s.replicas[%d]", at, i)
		if j, dup := names[r.Name]; dup && r.Name != "" {
			m.add(here+".name", "%q names replicas[%d] too", r.Name, j)
			continue
		}
		names[r.Name] = i
		added, err := pool.Add(registry.ReplicaConfig{Name: r.Name, URL: r.URL, Zone: r.Zone, Weight: r.Weight})
		if err != nil {
			m.addError(here, &r, err)
			continue
		}
		if r.Drain {
			added.Drain()
		}
	}
}

// fromEnv reads a secret from the environment; files hold only its name.
func fromEnv(at, name string, m *mistakes) string {
	if name == "" {
		return ""
	}
	v := os.Getenv(name)
	if v == "" {
		m.add(at, "the environment variable %s is not set", name)
	}
	return v
}

// standIn finds the pools of a configuration, also where two share a name.
type standIn []*registry.Pool

func (s standIn) Pool(name string) (*registry.Pool, bool) {
	for _, p := range s {
		if p.Name() == name {
			return p, true
		}
	}
	return nil, false
}

// judge lets the library judge what was built, with stand-ins for the parts
// that need a connection.
func (p *parts) judge(m *mistakes) {
	keys, err := tenant.NewKeys(nil, tenant.Config{})
	if err != nil {
		m.add("", "%v", err)
		return
	}
	c := p.config
	c.Registry = standIn(p.pools)
	c.Quota = quota.NewMemory(quota.MemoryConfig{})
	c.Authenticate = keys.Authenticate
	c.Scrape, c.Parity = -time.Second, -time.Second // nobody is asked anything
	h, err := expediter.New(c)
	if err != nil {
		m.addError("", nil, err)
		return
	}
	h.Close()
}
