package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/tenant"
)

// TestExampleConfig holds the documented example to what the program accepts.
func TestExampleConfig(t *testing.T) {
	c, p, err := load("config.example.yaml", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.pools) != 3 || len(p.keys) != 2 || len(p.config.Models) != 4 {
		t.Errorf("built %d pools, %d keys, %d models, want 3, 2, 4", len(p.pools), len(p.keys), len(p.config.Models))
	}
	if r := p.pools[1].Replicas(); len(r) != 2 || r[1].Name() != "small-b" || r[1].Zone() != "eu-2" || r[1].Weight() != 1.5 {
		t.Errorf("second pool's replicas = %v", r)
	}
	acme := p.keys[0].Tenant
	if acme.ID != "acme" || acme.Limit.Concurrency != 64 || len(acme.Limit.Windows) != 2 || acme.Price.Output != 3 || acme.Weight != 2 {
		t.Errorf("tenant = %+v", acme)
	}
	if c.Pools[0].SLO.TTFT.Seconds() != 5 || p.config.Timeouts.Answer.Minutes() != 10 {
		t.Errorf("durations are read wrongly: %+v", c.Pools[0].SLO)
	}
	if p.keys[0].Expires.Year() != 2030 {
		t.Errorf("expires = %v", p.keys[0].Expires)
	}
}

// TestExampleDefaults: what config.example.yaml gives as defaults are those of
// the program.
func TestExampleDefaults(t *testing.T) {
	got, _, err := readConfig("config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := &config{Pools: make([]poolConfig, 1)}
	want.setDefaults()
	type defaults struct {
		Grace, Scrape, MaxWait time.Duration
		Headroom               float64
		DefaultMaxTokens       int
		Limits                 limitsConfig
		Timeouts               timeoutsConfig
		Retry                  retryConfig
	}
	of := func(c *config) defaults {
		p := &c.Pools[0]
		return defaults{c.Grace, c.Scrape, p.MaxWait, p.Headroom, p.DefaultMaxTokens, c.Limits, c.Timeouts, c.Retry}
	}
	if of(got) != of(want) {
		t.Errorf("the file says\n%+v, the program takes\n%+v", of(got), of(want))
	}
}

// TestDefaultsOfSections: sections that are left out have no defaults, and those
// that are there have what config.example.yaml says in comments.
func TestDefaultsOfSections(t *testing.T) {
	var none config
	none.setDefaults()
	if !reflect.DeepEqual(none.Redis, redisConfig{}) || none.Usage != (usageConfig{}) {
		t.Errorf("defaults of nothing = %+v, %+v", none.Redis, none.Usage)
	}
	for policy, patience := range map[string]time.Duration{"closed": 25 * time.Millisecond, "open": 5 * time.Millisecond, "local_share": 5 * time.Millisecond} {
		c := redisConfig{Addresses: []string{"a:1"}, Policy: policy}
		c.setDefaults()
		if c.Timeout != 100*time.Millisecond || c.Patience != patience {
			t.Errorf("%s: timeout %v, patience %v, want 100ms and %v", policy, c.Timeout, c.Patience, patience)
		}
	}
	p := poolConfig{DNS: dnsConfig{Host: "h"}}
	p.setDefaults()
	if want := (dnsConfig{Host: "h", Interval: 5 * time.Second, Timeout: 2 * time.Second, Misses: 3}); p.DNS != want {
		t.Errorf("dns = %+v, want %+v", p.DNS, want)
	}
	c := config{Usage: usageConfig{File: "f"}}
	c.setDefaults()
	if c.Usage.MaxSize != 268_435_456 {
		t.Errorf("max_size = %d, want 268435456", c.Usage.MaxSize)
	}
}

// TestEveryMistakeAtOnce: one run names all that is wrong, by line and field.
func TestEveryMistakeAtOnce(t *testing.T) {
	const file = `listen: 127.0.0.1:8080
grace: soon
pools:
  - name: a
    served: model-a
    headroom: 1.5
    replicas:
      - ftp://10.0.0.1
      - http://user:secret@10.0.0.2
  - name: b
    replicas: []
  - name: c
    served: model-c
    max_tokenz: 5
    max_tokens: -1
    replicas: http://10.0.0.3
models:
  - {name: x, pool: a}
  - {name: x, pool: nowhere}
tenants:
  - id: "has space"
    keys: [nonsense]
    models: [y]
  - id: good
    tokens_per_minute: many
    keys:
      - digest: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
        expires: tomorrow
redis:
  addresses: [127.0.0.1:6379]
  policy: maybe
retry: {attempts: -1, attempts: 2}
`
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := load(path, "")
	if err == nil {
		t.Fatal("accepted")
	}
	got := err.Error()
	for _, want := range []string{
		":2: grace: expected a duration",
		":6: pools[0].headroom: ",
		":8: pools[0].replicas[0]: ",
		":9: pools[0].replicas[1]: ",
		":10: pools[1].served: ",
		":11: pools[1].replicas: expected at least one replica",
		":14: pools[2].max_tokenz: unknown field",
		":16: pools[2].replicas: expected a list, found a value",
		":21: tenants[0].id: ",
		":23: tenants[0].models[0]: \"y\" is not one of models",
		":25: tenants[1].tokens_per_minute: expected a whole number",
		":28: tenants[1].keys[0].expires: expected a time",
		":31: redis.policy: expected closed, open or local_share",
		":32: retry.attempts: given twice",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line says %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "secret") {
		t.Errorf("the report repeats a password:\n%s", got)
	}
}

func TestSemanticMistakes(t *testing.T) {
	const file = `pools:
  - name: a
    served: model-a
    replicas:
      - http://10.0.0.1:8000
      - ftp://10.0.0.1
  - name: b
    max_tokens: -1
    replicas: [http://10.0.0.3]
models:
  - {name: x, pool: a}
  - {name: x, pool: b}
  - name: z
    pool: nowhere
tenants:
  - id: good
    weight: -1
    keys: [nonsense]
limits: {body: 100, bodies: 10}
`
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := load(path, "")
	if err == nil {
		t.Fatal("accepted")
	}
	got := err.Error()
	for _, want := range []string{
		":6: pools[0].replicas[1]: ",
		":7: pools[1].served: ",
		":8: pools[1].max_tokens: ",
		":12: models[1].name: \"x\" is taken by models[0]",
		":14: models[2].pool: \"nowhere\" is not one of pools",
		":17: tenants[0].weight: ",
		":18: tenants[0].keys[0]: want the 64 hexadecimal digits",
		":19: limits.bodies: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line says %q in\n%s", want, got)
		}
	}
}

// TestNotYAML: what keeps a file from being read is one line, with its place.
func TestNotYAML(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"unclosed", "pools: [", "1: cannot be read as YAML: sequence end token ']' not found"},
		{"tab", "pools:\n\t- x", "2: cannot be read as YAML: found character '\t' that cannot start any token"},
		{"list", "# c\n- a", "2: expected a map, found a list; at the top are fields such as pools, models and tenants"},
		{"text", "pools", "1: expected a map, found a value; at the top are fields such as pools, models and tenants"},
		{"nothing", "~", "1: expected a map, found nothing; at the top are fields such as pools, models and tenants"},
		{"anchor", "models: []\npools: &a []", "2: Anchor is not supported; write the value out"},
		{"merge", "a:\n  <<: {}", "2: merge keys are not supported; write the fields out"},
		{"empty", "", "1: is empty; config.example.yaml shows what belongs here"},
		{"spaces", " \n\n", "1: is empty; config.example.yaml shows what belongs here"},
		{"mark", "\ufeff", "1: is empty; config.example.yaml shows what belongs here"},
		{"comment", "# pools\n", "1: holds no field; config.example.yaml shows what belongs here"},
		{"two", "grace: 1s\n---\ngrace: 2s\n", "2: expected one YAML document, found 2"},
		{"utf-16", "\xff\xfep\x00", "1: is UTF-16; expected UTF-8"},
	} {
		if got := report(t, tc.file); len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s: report = %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestKeygen(t *testing.T) {
	var out bytes.Buffer
	if err := keygen(nil, &out); err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(out.String())
	if len(fields) < 4 || fields[0] != "key:" || fields[2] != "digest:" || tenant.Digest(fields[1], nil) != fields[3] {
		t.Errorf("output = %s", out.String())
	}
	t.Setenv("TEST_PEPPER", "sixteen bytes ok")
	out.Reset()
	if err := keygen([]string{"-pepper-env", "TEST_PEPPER"}, &out); err != nil {
		t.Fatal(err)
	}
	fields = strings.Fields(out.String())
	if tenant.Digest(fields[1], []byte("sixteen bytes ok")) != fields[3] {
		t.Errorf("output = %s", out.String())
	}
	if err := keygen([]string{"-pepper-env", "NOT_SET_ANYWHERE"}, &out); err == nil {
		t.Error("a pepper that is not set was accepted")
	}
}

// FuzzConfig: no file makes the reader panic.
func FuzzConfig(f *testing.F) {
	example, err := os.ReadFile("config.example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add("pools: [{name: a, replicas: [http://x]}]")
	f.Add("pools: {a: [}")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file string) {
		path := filepath.Join(dir, "fuzz.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, m, err := readConfig(path); err == nil {
			c.Pools = c.Pools[:min(len(c.Pools), 3)]
			for i := range c.Pools {
				c.Pools[i].Tokenizer = "" // reads whole folders
			}
			// One mistake keeps the library from starting anything: goroutines
			// make coverage random, and then inputs are minimised without end.
			c.Models = append(c.Models, modelConfig{})
			build(c, m)
			if m.err() == nil {
				t.Error("a model without a name was accepted")
			}
		}
	})
}
