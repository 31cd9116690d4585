package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/expediterhq/expediter/internal/openai"
	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/tenant"
)

func (p *parts) addTenants(c *config, m *mistakes) {
	if c.PepperEnv != "" {
		var err error
		if p.keyConf.Pepper, err = readPepper(c.PepperEnv); err != nil {
			m.add("pepper_env", "%v", err)
		}
	}
	models := make([]string, len(c.Models))
	for i, mc := range c.Models {
		models[i] = mc.Name
	}
	if len(c.Tenants) == 0 {
		m.add("tenants", "expected at least one tenant with a key; gateway keygen makes one")
	}
	ids, digests := make(map[string]int), make(map[string]string)
	for i := range c.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		tc := &c.Tenants[i]
		t := tc.tenant()
		tc.check(at, models, m)
		if err := t.Validate(); err != nil {
			m.addError(at, tc, err)
		}
		if j, dup := ids[t.ID]; dup && t.ID != "" {
			m.add(at+".id", "%q names tenants[%d] too", t.ID, j)
		}
		ids[t.ID] = i
		for j, k := range tc.Keys {
			here := fmt.Sprintf("%s.keys[%d]", at, j)
			p.checkKey(here, &k, digests, m)
			p.keys = append(p.keys, tenant.Key{Digest: k.Digest, Name: k.Name, Expires: k.Expires, Tenant: t})
		}
	}
}

// checkKey judges one key, apart from its tenant.
func (p *parts) checkKey(at string, k *keyConfig, digests map[string]string, m *mistakes) {
	if k.Digest == "" {
		m.add(m.inside(at, "digest"), "must be set to what gateway keygen prints")
		return
	}
	if sum, err := hex.DecodeString(k.Digest); err != nil || len(sum) != sha256.Size {
		// The value is never shown: it might be a key put there by mistake.
		m.add(m.inside(at, "digest"), "want the %d hexadecimal digits that gateway keygen prints, not a key", 2*sha256.Size)
		return
	}
	alone := tenant.Key{Digest: k.Digest, Name: k.Name, Expires: k.Expires, Tenant: &tenant.Tenant{ID: "any"}}
	if _, err := tenant.NewKeys([]tenant.Key{alone}, p.keyConf); err != nil {
		m.addError(at, k, err)
		return
	}
	digest := strings.ToLower(k.Digest)
	if earlier, dup := digests[digest]; dup {
		m.add(m.inside(at, "digest"), "is that of %s too", earlier)
	}
	digests[digest] = at
}

// check finds what only the file can get wrong.
func (tc *tenantConfig) check(at string, models []string, m *mistakes) {
	if len(tc.Keys) == 0 {
		m.add(at+".keys", "expected at least one key; gateway keygen makes one")
	}
	for j, name := range tc.Models {
		if !slices.Contains(models, name) {
			m.add(fmt.Sprintf("%s.models[%d]", at, j), "%q is not one of models", name)
		}
	}
	for j, name := range tc.AllowFields {
		if !slices.Contains(openai.Controls(), name) {
			m.add(fmt.Sprintf("%s.allow_fields[%d]", at, j), "%q does not steer the engine; expected one of %s", name, strings.Join(openai.Controls(), ", "))
		}
	}
	for _, w := range []struct {
		name string
		n    int64
	}{{"tokens_per_minute", tc.TokensPerMinute}, {"tokens_per_day", tc.TokensPerDay}} {
		if !validWindow(w.n) {
			m.add(at+"."+w.name, "is %d, want 1 to %d, or no such line for no limit", w.n, int64(quota.MaxTokens))
		}
	}
}

// keyState is what the metrics show of a store of keys.
func keyState(k *tenant.Keys) func() metrics.KeyState {
	return func() metrics.KeyState {
		s := k.Stats()
		return metrics.KeyState{Keys: s.Keys, Tenants: s.Tenants, Refused: s.Refused, Limited: s.Limited}
	}
}

func validWindow(n int64) bool { return n >= 0 && n <= quota.MaxTokens }

func (tc *tenantConfig) tenant() *tenant.Tenant {
	t := &tenant.Tenant{
		ID: tc.ID, Tier: tc.Tier, Weight: tc.Weight, Models: tc.Models,
		Limit: quota.Limit{Concurrency: tc.Concurrency},
		Price: tenant.Price{Input: tc.Price.Input, Output: tc.Price.Output},
		TTFT:  tc.SLO.TTFT, TPOT: tc.SLO.TPOT,
		MaxTokens: tc.MaxTokens, DefaultMaxTokens: tc.DefaultMaxTokens,
		IsolatePrefix: tc.IsolatePrefix, AllowFields: tc.AllowFields, Disabled: tc.Disabled,
	}
	if tc.TokensPerMinute != 0 && validWindow(tc.TokensPerMinute) {
		t.Limit.Windows = append(t.Limit.Windows, quota.PerMinute(tc.TokensPerMinute))
	}
	if tc.TokensPerDay != 0 && validWindow(tc.TokensPerDay) {
		t.Limit.Windows = append(t.Limit.Windows, quota.PerDay(tc.TokensPerDay))
	}
	return t
}
