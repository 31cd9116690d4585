package expediter

import (
	"errors"
	"fmt"
)

// A ConfigError says what is wrong with one field of a Config.
type ConfigError struct {
	Field string // as in Config, with the index of a list: Models[2].Pool
	Want  string // what was expected
}

// Error names the field and what was expected.
func (e *ConfigError) Error() string { return "expediter: " + e.Field + ": " + e.Want }

// check returns all that is wrong with c, joined.
func (c *Config) check() error {
	var errs []error
	bad := func(field, want string, args ...any) {
		errs = append(errs, &ConfigError{Field: field, Want: fmt.Sprintf(want, args...)})
	}
	if c.Registry == nil {
		bad("Registry", "must be set")
	}
	if c.Authenticate == nil {
		bad("Authenticate", "must be set")
	}
	if c.Quota == nil {
		bad("Quota", "must be set; quota.NewMemory is enough for one gateway")
	}
	c.checkBounds(bad)
	pools := c.checkPools(bad)
	c.checkModels(bad, pools)
	return errors.Join(errs...)
}

// maxBody is the largest limit for one body: 1 TiB.
const maxBody = 1 << 40

func (c *Config) checkBounds(bad func(field, want string, args ...any)) {
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"Limits.Body", float64(c.Limits.Body)}, {"Limits.Bodies", float64(c.Limits.Bodies)},
		{"Limits.Answer", float64(c.Limits.Answer)}, {"Limits.Event", float64(c.Limits.Event)},
		{"Limits.Head", float64(c.Limits.Head)}, {"Limits.Fields", float64(c.Limits.Fields)},
		{"Limits.Choices", float64(c.Limits.Choices)}, {"Limits.Prompts", float64(c.Limits.Prompts)},
		{"Timeouts.Body", float64(c.Timeouts.Body)}, {"Timeouts.FirstToken", float64(c.Timeouts.FirstToken)},
		{"Timeouts.Silence", float64(c.Timeouts.Silence)}, {"Timeouts.Answer", float64(c.Timeouts.Answer)},
		{"Timeouts.Write", float64(c.Timeouts.Write)}, {"Timeouts.Settle", float64(c.Timeouts.Settle)},
		{"Retry.Attempts", float64(c.Retry.Attempts)}, {"Retry.Ratio", c.Retry.Ratio},
		{"Retry.Burst", float64(c.Retry.Burst)}, {"Retry.Kills", float64(c.Retry.Kills)},
	} {
		if f.v < 0 {
			bad(f.name, "must not be negative")
		}
	}
	if c.Limits.Body > maxBody {
		bad("Limits.Body", "must be at most %d bytes", int64(maxBody))
	}
	if c.Limits.Bodies > 0 && c.Limits.Bodies < c.Limits.Body {
		bad("Limits.Bodies", "must be at least Limits.Body, or no request of full size ever fits")
	}
}

func (c *Config) checkPools(bad func(field, want string, args ...any)) map[string]bool {
	if len(c.Pools) == 0 {
		bad("Pools", "must name at least one pool")
	}
	seen := make(map[string]bool, len(c.Pools))
	for i := range c.Pools {
		p := &c.Pools[i]
		at := fmt.Sprintf("Pools[%d].", i)
		switch {
		case p.Name == "":
			bad(at+"Name", "must be set")
		case seen[p.Name]:
			bad(at+"Name", "%q names an earlier pool too", p.Name)
		case c.Registry != nil:
			if _, ok := c.Registry.Pool(p.Name); !ok {
				bad(at+"Name", "%q is not in the registry", p.Name)
			}
		}
		seen[p.Name] = true
		if p.Served == "" {
			bad(at+"Served", "must be the base model's name as the replicas know it")
		}
		for _, f := range []struct {
			name string
			v    int64
		}{
			{"MaxModelLen", int64(p.MaxModelLen)}, {"DefaultMaxTokens", int64(p.DefaultMaxTokens)},
			{"MaxTokens", int64(p.MaxTokens)}, {"MaxWait", int64(p.MaxWait)},
			{"TTFT", int64(p.TTFT)}, {"TPOT", int64(p.TPOT)},
		} {
			if f.v < 0 {
				bad(at+f.name, "must not be negative")
			}
		}
	}
	return seen
}

func (c *Config) checkModels(bad func(field, want string, args ...any), pools map[string]bool) {
	if len(c.Models) == 0 {
		bad("Models", "must name at least one model")
	}
	seen := make(map[string]int, len(c.Models))
	for i, m := range c.Models {
		at := fmt.Sprintf("Models[%d].", i)
		if m.Name == "" {
			bad(at+"Name", "must be set")
		} else if j, dup := seen[m.Name]; dup {
			bad(at+"Name", "%q is taken by Models[%d]", m.Name, j)
		}
		seen[m.Name] = i
		if !pools[m.Pool] {
			bad(at+"Pool", "%q is not one of Pools", m.Pool)
		}
	}
}
