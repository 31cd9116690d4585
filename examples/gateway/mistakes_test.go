package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// sound is a file without a mistake. Tests replace lines of it.
const sound = `listen: 127.0.0.1:8080
pools:
  - name: a
    served: model-a
    replicas: [http://10.0.0.1:8000, http://10.0.0.2:8000]
models: [{name: x, pool: a}]
tenants:
  - id: acme
    keys: [` + digest + `]
`

// report returns the lines that load reports for a file, without its name.
func report(t *testing.T, file string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := load(path, "")
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(err.Error(), path+":", ""), "\n")
}

func TestSound(t *testing.T) {
	for _, prefix := range []string{"", "\ufeff"} {
		if got := report(t, prefix+sound); got != nil {
			t.Errorf("a good file that begins with %q: %q", prefix, got)
		}
	}
}

// TestOneMistake: a file with one mistake gets one line, which names its
// field as the file does.
func TestOneMistake(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct{ name, old, new, want string }{
		{"listen without host", "127.0.0.1:8080", "18080", `1: listen: expected host:port, such as 127.0.0.1:8080, got "18080"`},
		{"listen with a scheme", "127.0.0.1:8080", "http://127.0.0.1:8080", `1: listen: expected host:port`},
		{"port out of range", "127.0.0.1:8080", "127.0.0.1:99999", `1: listen: expected a port of 1 to 65535, got "99999"`},
		{"admin as listen", "pools:", "admin: 127.0.0.1:8080\npools:", "2: admin: takes the same port as listen"},
		{"admin as listen, all hosts", "pools:", "admin: :8080\npools:", "2: admin: takes the same port as listen"},
		{"admin as listen, by name", "pools:", "admin: localhost:8080\npools:", "2: admin: takes the same port as listen"},
		{"admin as the default", "listen: 127.0.0.1:8080", "admin: 127.0.0.1:8080", "1: admin: takes the same port as listen"},
		{"usage in no directory", "pools:", "usage: {file: " + dir + "/nowhere/usage.jsonl}\npools:", "2: usage.file: there is no directory"},
		{"usage is a directory", "pools:", "usage: {file: " + dir + "}\npools:", "2: usage.file: "},
		{"usage below a file", "pools:", "usage: {file: config_test.go/x}\npools:", "2: usage.file: there is no directory"},
		{"usage size", "pools:", "usage: {max_size: -1}\npools:", "2: usage.max_size: must not be negative, got -1"},
		{"grace", "pools:", "grace: -1s\npools:", "2: grace: must not be negative, got -1s"},
		{"scrape negative", "pools:", "scrape: -1s\npools:", "2: scrape: expected at least 50ms, got -1s"},
		{"scrape too often", "pools:", "scrape: 49ms\npools:", "2: scrape: expected at least 50ms, got 49ms"},
		{"body", "pools:", "limits: {body: 1_099_511_627_777, bodies: 1_099_511_627_777}\npools:", "2: limits.body: must be at most"},
		{"body above all bodies", "pools:", "limits: {body: 1_073_741_825}\npools:", "2: limits.bodies: expected at least limits.body, which is 1073741825; is 1073741824, so that no"},
		{"all bodies below one", "pools:", "limits: {bodies: 50}\npools:", "2: limits.bodies: expected at least limits.body, which is 8388608; is 50, so that no"},
		{"all bodies below the given one", "pools:", "limits: {body: 60, bodies: 50}\npools:", "2: limits.bodies: expected at least limits.body, which is 60; is 50, so that no"},
		{"all bodies below zero", "pools:", "limits: {bodies: -5}\npools:", "2: limits.bodies: must not be negative, got -5"},
		{"silence", "pools:", "timeouts: {silence: -1s}\npools:", "2: timeouts.silence: must not be negative, got -1s"},
		{"first token", "pools:", "timeouts: {first_token: -1s}\npools:", "2: timeouts.first_token: must not be negative, got -1s"},
		{"max wait", "    served", "    max_wait: -1s\n    served", "4: pools[0].max_wait: must not be negative, got -1s"},
		{"pool's objective", "    served", "    slo: {ttft: -1s}\n    served", "4: pools[0].slo.ttft: must not be negative, got -1s"},
		{"headroom", "    served", "    headroom: 1.5\n    served", "4: pools[0].headroom: expected"},
		{"kv tokens", "    served", "    kv_tokens: -1\n    served", "4: pools[0].kv_tokens: expected"},
		{"tokenizer", "    served", "    tokenizer: " + dir + "/nowhere\n    served", "4: pools[0].tokenizer: cannot load the model directory"},
		{"replica without a scheme", "http://10.0.0.2:8000", "10.0.0.2:8000", "5: pools[0].replicas[1]: expected"},
		{"replica's url", "http://10.0.0.2:8000", "{url: ftp://10.0.0.2:8000, name: b}", "5: pools[0].replicas[1].url: expected scheme http or https, got ftp"},
		{"replica's weight", "http://10.0.0.2:8000", "{url: http://10.0.0.2:8000, weight: -1}", "5: pools[0].replicas[1].weight: expected"},
		{"replica twice", "http://10.0.0.2:8000", "http://10.0.0.1:8000", "5: pools[0].replicas[1]: is taken by replica"},
		{"replica twice, named", "http://10.0.0.2:8000", "{url: http://10.0.0.1:8000/, name: b}", "5: pools[0].replicas[1].url: is taken by replica"},
		{"replica's API", "http://10.0.0.2:8000", "http://10.0.0.2:8000/v1", "5: pools[0].replicas[1]: expected the base address without /v1"},
		{"replicas of one name", "[http://10.0.0.1:8000, http://10.0.0.2:8000]", "[{url: http://a, name: r}, {url: http://b, name: r}]", `5: pools[0].replicas[1].name: "r" names replicas[0] too`},
		{"no pool's name", "name: a\n    served: model-a\n    replicas: [http://10.0.0.1:8000, http://10.0.0.2:8000]", "served: model-a\n    replicas: [http://c]\n  - {name: a, served: b, replicas: [http://d]}", "3: pools[0].name: must be set"},
		{"model twice", "{name: x, pool: a}", "{name: x, pool: a}, {name: x, pool: a}", `6: models[1].name: "x" is taken by models[0]`},
		{"model of no pool", "{name: x, pool: a}", "{name: x, pool: a}, {name: y, pool: Pools}", `6: models[1].pool: "Pools" is not one of pools`},
		{"no keys", "    keys: [" + digest + "]\n", "", "8: tenants[0].keys: expected at least one key"},
		{"bad digest", digest, "zzz", "9: tenants[0].keys[0]: want the 64 hexadecimal digits that gateway keygen prints, not a key"},
		{"bad digest, named", digest, "{digest: zzz, name: ci}", "9: tenants[0].keys[0].digest: want the 64"},
		{"no digest", digest, "{name: ci}", "9: tenants[0].keys[0].digest: must be set to what gateway keygen prints"},
		{"digest of no key", digest, strings.Repeat("0", 64), "9: tenants[0].keys[0]: is that of no key at all"},
		{"digest twice", digest, digest + ", " + strings.ToUpper(digest), "9: tenants[0].keys[1]: is that of tenants[0].keys[0] too"},
		{"tokens per minute", "    keys", "    tokens_per_minute: -5\n    keys", "9: tenants[0].tokens_per_minute: is -5, want 1 to"},
		{"concurrency", "    keys", "    concurrency: -5\n    keys", "9: tenants[0].concurrency: is -5, want at least 0"},
		{"price", "    keys", "    price: {output: -5}\n    keys", "9: tenants[0].price.output: is -5"},
		{"tenant's objective", "    keys", "    slo: {tpot: -5s}\n    keys", "9: tenants[0].slo.tpot: is -5s"},
		{"default above the cap", "    keys", "    max_tokens: 5\n    default_max_tokens: 6\n    keys", "10: tenants[0].default_max_tokens: is 6, want at most max_tokens, which is 5"},
		{"a field that is none", "    keys", "    allow_fields: [priority, temperature]\n    keys", `9: tenants[0].allow_fields[1]: "temperature" does not steer the engine`},
		{"redis policy", "pools:", "redis: {addresses: ['127.0.0.1:6379'], policy: perhaps}\npools:", "2: redis.policy: expected closed, open or local_share"},
		{"redis empty", "pools:", "redis: {}\npools:", "2: redis: says nothing; expected addresses and policy, or no such line"},
		{"redis address", "pools:", "redis: {addresses: ['redis://127.0.0.1:6379'], policy: open}\npools:", "2: redis.addresses[0]: expected host:port"},
		{"redis timeout", "pools:", "redis: {addresses: ['127.0.0.1:6379'], policy: open, timeout: -1s}\npools:", "2: redis.timeout: must not be negative, got -1s"},
		{"redis patience", "pools:", "redis: {addresses: ['127.0.0.1:6379'], policy: open, patience: -1s}\npools:", "2: redis.patience: must not be negative, got -1s"},
		{"redis without address", "pools:", "redis: {policy: open}\npools:", "2: redis.addresses: expected at least one"},
		{"pools of another kind", "    replicas: [http://10.0.0.1:8000, http://10.0.0.2:8000]", "    replicas: http://10.0.0.1:8000", "5: pools[0].replicas: expected a list, found a value; put it in brackets: replicas: [...]"},
		{"keys of another kind", "[" + digest + "]", digest, "9: tenants[0].keys: expected a list, found a value; put it in brackets: keys: [...]"},
		{"models as a map", "[{name: x, pool: a}]", "{name: x, pool: a}", "6: models: expected a list, found a map; begin each item with a dash"},
		{"objective of another kind", "    served", "    slo: 5s\n    served", "4: pools[0].slo: expected a map, found a value; its fields are ttft, tpot"},
		{"unknown", "    served", "    color: red\n    served", "4: pools[0].color: unknown field; expected one of name, served, replicas, "},
		{"misspelt", "    served", "    max_waits: 5s\n    served", "4: pools[0].max_waits: unknown field (did you mean max_wait?); expected one of name, served, "},
	} {
		file := strings.Replace(sound, tc.old, tc.new, 1)
		if file == sound {
			t.Errorf("%s: the file does not change", tc.name)
		}
		got := report(t, file)
		if len(got) != 1 || !strings.HasPrefix(got[0], tc.want) {
			t.Errorf("%s: report = %q, want one line that begins with %q", tc.name, got, tc.want)
		}
	}
}

// TestMistakesDoNotHide: what is wrong in one part hides nothing in others,
// also within one pool.
func TestMistakesDoNotHide(t *testing.T) {
	const file = `pools:
  - name: a
    served: model-a
    headroom: 1.5
    tokenizer: /nowhere/at/all
    max_wait: -1s
    replicas:
      - 10.0.0.1:8000
      - http://10.0.0.2:8000
      - http://10.0.0.2:8000
      - url: ftp://10.0.0.3
        weight: -1
  - name: a
    served: model-a
    replicas: [http://10.0.0.2:8000]
models: [{name: x, pool: nowhere}]
tenants:
  - id: "has space"
    weight: -1
    keys: [zzz]
redis:
  policy: perhaps
  db: -1
usage: {max_size: -1, redis_stream: s}
`
	want := []string{
		"4: pools[0].headroom", "5: pools[0].tokenizer", "6: pools[0].max_wait",
		"8: pools[0].replicas[0]", "10: pools[0].replicas[2]", "11: pools[0].replicas[3].url", "12: pools[0].replicas[3].weight",
		"13: pools[1].name", "16: models[0].pool", "18: tenants[0].id", "19: tenants[0].weight", "20: tenants[0].keys[0]",
		"22: redis.policy", "23: redis.db", "24: usage.redis_stream", "24: usage.max_size",
	}
	got := report(t, file)
	for i, line := range got {
		n, rest, _ := strings.Cut(line, ": ")
		field, _, _ := strings.Cut(rest, ": ")
		got[i] = n + ": " + field
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("mistakes at\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
