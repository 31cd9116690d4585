package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const otherDigest = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"

// noon is when the files of these tests are judged.
var noon = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)

// read loads a file without a mistake.
func read(t *testing.T, file string) (*config, *mistakes) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c, p, err := load(path, "")
	if err != nil {
		t.Fatal(err)
	}
	p.file.file = "f"
	return c, p.file
}

// checked returns what -check prints of a file and the error that it ends
// with.
func checked(t *testing.T, file string) (out, fault string) {
	t.Helper()
	var b bytes.Buffer
	c, m := read(t, file)
	if err := check(c, m, noon, &b); err != nil {
		fault = err.Error()
	}
	return b.String(), fault
}

const good = "f: 1 pool, 1 model, 1 tenant: good\n"

// TestCheckNotesBlanks: what is 0 or empty and stands for something else is
// told, and what is just that is not.
func TestCheckNotesBlanks(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"nothing", "", "", ""},
		{"no limit", "    keys", "    tokens_per_minute: 0\n    tokens_per_day: 0\n    concurrency:\n    keys",
			"9: note: tenants[0].tokens_per_minute: is 0, which means no limit\n" +
				"10: note: tenants[0].tokens_per_day: is 0, which means no limit\n" +
				"11: note: tenants[0].concurrency: is empty, which means no limit\n"},
		{"pool's limits", "    served", "    max_tokens: 0\n    max_wait: 0s\n    slo: {ttft: 0s}\n    networks: []\n    served",
			"4: note: pools[0].max_tokens: is 0, which means no limit but max_model_len\n" +
				"5: note: pools[0].max_wait: is 0, which means 30s\n" +
				"6: note: pools[0].slo.ttft: is 0, which means no objective\n" +
				"7: note: pools[0].networks: is empty, which means every address that replicas may have\n"},
		{"an estimate", "    served", "    max_model_len: 4096\n    served",
			"4: note: pools[0].max_model_len: bounds what clients ask for but not their prompts, whose length is an estimate without tokenizer: the engine checks them\n"},
		{"the gateway's limits", "pools:", "limits: {body: 0, choices: 0}\nretry: {ratio: 0.0}\ngrace: 0s\npools:",
			"2: note: limits.body: is 0, which means 8388608\n" +
				"2: note: limits.choices: is 0, which means 16\n" +
				"3: note: retry.ratio: is 0, which means 0.1\n" +
				"4: note: grace: is 0, which means 30s\n"},
		{"who may", "    keys: [" + digest + "]", "    models: []\n    price: {input: 0}\n    keys: [{digest: " + digest + ", expires: }]",
			"9: note: tenants[0].models: is empty, which means all models\n" +
				"10: note: tenants[0].price.input: is 0, which means 1\n" +
				"11: note: tenants[0].keys[0].expires: is empty, which means never\n"},
		{"secrets", "pools:", "admin:\npepper_env: ''\npools:",
			"2: note: admin: is empty, which means that /metrics is on the public address\n" +
				"3: note: pepper_env: is empty, which means no pepper\n"},
		{"what 0 means", "    keys", "    tier: 0\n    disabled: false\n    allow_fields: []\n    keys", ""},
	} {
		file := strings.Replace(sound, tc.old, tc.new, 1)
		want := good
		if tc.want != "" {
			want = "f:" + strings.ReplaceAll(strings.TrimSuffix(tc.want, "\n"), "\n", "\nf:") + "\n" + good
		}
		if out, fault := checked(t, file); out != want || fault != "" {
			t.Errorf("%s: -check prints\n%s%s\nwant\n%s", tc.name, out, fault, want)
		}
	}
}

// TestMeaningsAreOfFields: each path in meanings is a field of the file.
func TestMeaningsAreOfFields(t *testing.T) {
	var paths []string
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		paths = append(paths, path)
		switch {
		case of.Kind() == reflect.Slice:
			walk(path+"[]", of.Elem())
		case of.Kind() == reflect.Struct && of != timeType:
			for i, name := range fieldNames(reflect.New(of).Interface()) {
				walk(join(path, name), of.Field(i).Type)
			}
		}
	}
	walk("", reflect.TypeFor[config]())
	for _, path := range slices.Sorted(maps.Keys(meanings)) {
		if !slices.Contains(paths, path) {
			t.Errorf("%s is no field", path)
		}
	}
}

// TestCheckKeys: a key that has expired is named; only a file whose keys are
// of no use to anybody is not good.
func TestCheckKeys(t *testing.T) {
	const (
		at   = "f:9: warning: tenants[0].keys[0].expires: "
		none = "f:8: tenants: expected a key that can be used; each has expired or is of a disabled tenant. gateway keygen makes one"
	)
	for _, tc := range []struct{ name, keys, out, fault string }{
		{"one of two", "{digest: " + digest + ", name: ci, expires: 2027-01-31}, " + otherDigest,
			at + `key "ci" of tenant "acme" expired at 2027-01-31T00:00:00Z and is refused` + "\n" + good, ""},
		{"at that moment", "{digest: " + digest + ", expires: 2027-01-31T12:00:00Z}, " + otherDigest,
			at + `key "" of tenant "acme" expired at 2027-01-31T12:00:00Z and is refused` + "\n" + good, ""},
		{"a second before", "{digest: " + digest + ", expires: 2027-01-31T12:00:01Z}", good, ""},
		{"all", "{digest: " + digest + ", name: ci, expires: 2026-01-01}",
			at + `key "ci" of tenant "acme" expired at 2026-01-01T00:00:00Z and is refused` + "\n", none},
		{"the rest disabled", "{digest: " + digest + ", name: ci, expires: 2026-01-01}]\n  - id: other\n    disabled: true\n    keys: [" + otherDigest,
			at + `key "ci" of tenant "acme" expired at 2026-01-01T00:00:00Z and is refused` + "\n", none},
		{"all disabled", digest + "]\n    disabled: true\n    allow_fields: [", good, ""},
	} {
		file := strings.Replace(sound, digest, tc.keys, 1)
		if out, fault := checked(t, file); out != tc.out || fault != tc.fault {
			t.Errorf("%s: -check prints\n%s%s\nwant\n%s%s", tc.name, out, fault, tc.out, tc.fault)
		}
	}
}

// TestWarn: what -check says of keys that have expired, a gateway that serves
// says in its log.
func TestWarn(t *testing.T) {
	const expired = `WARN msg="a key is not valid" field=tenants[0].keys[0].expires error="key \"ci\" of tenant \"acme\" expired at 2026-01-01T00:00:00Z and is refused"` + "\n"
	for _, tc := range []struct{ name, keys, want string }{
		{"none", digest, ""},
		{"one of two", "{digest: " + digest + ", name: ci, expires: 2026-01-01}, " + otherDigest, expired},
		{"all", "{digest: " + digest + ", name: ci, expires: 2026-01-01}", expired + `WARN msg="no key can be used: every request gets a 401"` + "\n"},
	} {
		c, m := read(t, strings.Replace(sound, digest, tc.keys, 1))
		var log bytes.Buffer
		warn(c, m, noon, textLogger(&log))
		var got strings.Builder
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, "level=")
			got.WriteString(line)
		}
		if got.String() != tc.want {
			t.Errorf("%s: log =\n%s\nwant\n%s", tc.name, got.String(), tc.want)
		}
	}
}
