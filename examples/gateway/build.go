package main

import (
	"fmt"
	"os"
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
	config  expediter.Config
	pools   []*registry.Pool
	keys    []tenant.Key
	keyConf tenant.Config
	names   metrics.Names
	router  *router.Router // nil: the default rule
}

// build makes the parts of c and adds every mistake in it to m.
func build(c *config, m *mistakes) parts {
	p := parts{config: expediter.Config{
		Limits: expediter.Limits{
			Body: c.Limits.Body, Bodies: c.Limits.Bodies, Choices: c.Limits.Choices, Prompts: c.Limits.Prompts,
		},
		Timeouts: expediter.Timeouts{
			Body: c.Timeouts.Body, FirstToken: c.Timeouts.FirstToken, Silence: c.Timeouts.Silence,
			Answer: c.Timeouts.Answer, Write: c.Timeouts.Write,
		},
		Retry:  expediter.Retry{Attempts: c.Retry.Attempts, Ratio: c.Retry.Ratio, Burst: c.Retry.Burst, Kills: c.Retry.Kills},
		Scrape: c.Scrape,
	}}
	if c.Zone != "" {
		p.router = router.New(router.Config{Scorers: append(router.Default(), router.Zone{Local: c.Zone})})
	}
	for i := range c.Pools {
		p.addPool(fmt.Sprintf("pools[%d]", i), &c.Pools[i], m)
	}
	for _, mc := range c.Models {
		p.config.Models = append(p.config.Models, expediter.Model{Name: mc.Name, Pool: mc.Pool, Adapter: mc.Adapter})
		p.names.Models = append(p.names.Models, mc.Name)
	}
	p.addTenants(c, m)
	checkTLS(c.TLS, m)
	checkRedis(&c.Redis, c.Usage.Stream, m)
	p.check(m)
	return p
}

func (p *parts) addPool(at string, pc *poolConfig, m *mistakes) {
	pool, err := registry.NewPool(registry.PoolConfig{Name: pc.Name, Headroom: pc.Headroom, KVTokens: pc.KVTokens})
	if err != nil {
		m.addError(at, err)
		return
	}
	if len(pc.Replicas) == 0 {
		m.add(at+".replicas", "expected at least one replica, such as http://10.0.0.1:8000")
	}
	for i, r := range pc.Replicas {
		if _, err := pool.Add(registry.ReplicaConfig{Name: r.Name, URL: r.URL, Zone: r.Zone, Weight: r.Weight}); err != nil {
			m.addError(fmt.Sprintf("%s.replicas[%d]", at, i), err)
		}
	}
	out := expediter.Pool{
		Name: pc.Name, Served: pc.Served, Router: p.router,
		MaxModelLen: pc.MaxModelLen, DefaultMaxTokens: pc.DefaultMaxTokens, MaxTokens: pc.MaxTokens,
		MaxWait: pc.MaxWait, TTFT: pc.SLO.TTFT, TPOT: pc.SLO.TPOT,
		APIKey: fromEnv(at+".api_key_env", pc.APIKeyEnv, m),
	}
	if pc.Tokenizer != "" {
		out.Tokenizer, err = tokenize.Load(os.DirFS(pc.Tokenizer))
		if err != nil {
			m.add(at+".tokenizer", "cannot load the model directory %q: %v", pc.Tokenizer, err)
		}
	}
	p.pools = append(p.pools, pool)
	p.names.Pools = append(p.names.Pools, pc.Name)
	p.config.Pools = append(p.config.Pools, out)
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

func (p *parts) addTenants(c *config, m *mistakes) {
	p.keyConf.Pepper = []byte(fromEnv("pepper_env", c.PepperEnv, m))
	known := make(map[string]bool, len(c.Models))
	for _, mc := range c.Models {
		known[mc.Name] = true
	}
	seen := make(map[string]bool, len(c.Tenants))
	if len(c.Tenants) == 0 {
		m.add("tenants", "expected at least one tenant with a key; gateway keygen makes one")
	}
	for i := range c.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		tc := &c.Tenants[i]
		t := tc.tenant()
		if err := t.Validate(); err != nil {
			m.addError(at, err)
		}
		if seen[t.ID] {
			m.add(at+".id", "%q names an earlier tenant too", t.ID)
		}
		seen[t.ID] = true
		for j, name := range tc.Models {
			if !known[name] {
				m.add(fmt.Sprintf("%s.models[%d]", at, j), "%q is not one of models", name)
			}
		}
		for j, k := range tc.Keys {
			key := tenant.Key{Digest: k.Digest, Name: k.Name, Expires: k.Expires, Tenant: t}
			if _, err := tenant.NewKeys([]tenant.Key{key}, p.keyConf); err != nil && t.Validate() == nil {
				m.addError(fmt.Sprintf("%s.keys[%d]", at, j), err)
			}
			p.keys = append(p.keys, key)
		}
	}
}

func (tc *tenantConfig) tenant() *tenant.Tenant {
	t := &tenant.Tenant{
		ID: tc.ID, Tier: tc.Tier, Weight: tc.Weight, Models: tc.Models,
		Limit: quota.Limit{Concurrency: tc.Concurrency},
		Price: tenant.Price{Input: tc.Price.Input, Output: tc.Price.Output},
		TTFT:  tc.SLO.TTFT, TPOT: tc.SLO.TPOT,
		MaxTokens: tc.MaxTokens, DefaultMaxTokens: tc.DefaultMaxTokens,
		IsolatePrefix: tc.IsolatePrefix, AllowFields: tc.AllowFields, Disabled: tc.Disabled,
	}
	if tc.TokensPerMinute != 0 {
		t.Limit.Windows = append(t.Limit.Windows, quota.PerMinute(tc.TokensPerMinute))
	}
	if tc.TokensPerDay != 0 {
		t.Limit.Windows = append(t.Limit.Windows, quota.PerDay(tc.TokensPerDay))
	}
	return t
}

// check lets the library judge what was built, with stand-ins for the parts
// that need a connection.
func (p *parts) check(m *mistakes) {
	keys, err := tenant.NewKeys(p.keys, p.keyConf)
	if err != nil && len(m.list) == 0 {
		m.addError("tenants", err)
	}
	reg, err := registry.NewStatic(p.pools...)
	if err != nil {
		m.addError("pools", err)
		return
	}
	c := p.config
	c.Registry = reg
	c.Quota = quota.NewMemory(quota.MemoryConfig{})
	c.Authenticate = keys.Authenticate
	c.Scrape = -time.Second
	h, err := expediter.New(c)
	if err != nil {
		m.addError("", err)
		return
	}
	h.Close()
}
