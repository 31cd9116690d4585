package examples_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/internal/redistest"
)

// secretive is a gateway process that is given texts that must not turn up
// anywhere.
type secretive struct {
	t           *testing.T
	addr, admin string
	secrets     map[string]string // by what they are
}

// post sends a request under the key and returns its status and answer.
func (s *secretive) post(path, key, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest("POST", "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("User-Agent", s.secrets["prompt"])
	r.Header.Set("X-Request-Id", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Errorf("%s: %v", path, err)
	}
	return resp.StatusCode, string(b)
}

// check searches a text for all secrets.
func (s *secretive) check(where, text string) {
	s.t.Helper()
	for what, secret := range s.secrets {
		if i := strings.Index(text, secret); i >= 0 {
			s.t.Errorf("%s holds the %s: …%s…", where, what, text[max(i-100, 0):min(i+50, len(text))])
		}
	}
}

// use sends requests that are served, refused and turned away, and learns what
// the completions are.
func (s *secretive) use() {
	s.t.Helper()
	key, prompt := s.secrets["key"], s.secrets["prompt"]
	chat := func(extra string) string {
		return fmt.Sprintf(`{"model":"gpt-fast",%s"user":%q,"messages":[{"role":"user","content":%q}]}`, extra, prompt, prompt)
	}
	status, answer := s.post("/v1/chat/completions", key, chat(`"max_tokens":30,`))
	var whole struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal([]byte(answer), &whole); err != nil || status != 200 || len(whole.Choices[0].Message.Content) < 20 {
		s.t.Fatalf("status %d, %v: %s", status, err, answer)
	}
	s.secrets["completion"] = whole.Choices[0].Message.Content[:20]
	for _, tt := range []struct {
		name, path, key, body string
		status                int
	}{
		{"streamed", "/v1/chat/completions", key, chat(`"stream":true,"max_tokens":30,`), 200},
		{"more than the quota can ever hold", "/v1/chat/completions", key, chat(`"max_tokens":2000000,`), 400},
		{"malformed", "/v1/chat/completions", key, chat(`"max_tokens":5,`) + prompt, 400},
		{"unknown model", "/v1/chat/completions", key, strings.Replace(chat(""), "gpt-fast", prompt, 1), 404},
		{"unknown path", "/v1/" + prompt, key, chat(""), 404},
		{"wrong key", "/v1/chat/completions", key + "x", chat(""), 401},
	} {
		status, answer := s.post(tt.path, tt.key, tt.body)
		if status != tt.status {
			s.t.Errorf("%s: status %d, want %d: %s", tt.name, status, tt.status, answer)
		}
		if status != 200 && strings.Contains(answer, key) {
			s.t.Errorf("%s: the answer holds the key: %s", tt.name, answer)
		}
	}
}

// get reads a page of the gateway, and fails when it has another status.
func (s *secretive) get(url string, status int) string {
	s.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		s.t.Errorf("%s: status %d, want %d, %v", url, resp.StatusCode, status, err)
	}
	return string(b)
}

// TestP1NoSecretLeaves: a gateway process with its quota and its records in a
// real Redis and in a file. No key, digest, prompt or completion is in its log,
// its metrics, its records or in anything that Redis holds, and it serves no
// profiles, which would hold them.
func TestP1NoSecretLeaves(t *testing.T) {
	server := redistest.Start(t)
	replicaBin, gatewayBin := build(t, "replica"), build(t, "gateway")
	replica := freeAddr(t)
	run(t, "http://"+replica+"/health", replicaBin, "-addr", replica, "-model", "acme-8b", "-speed", "20")
	out, err := exec.Command(gatewayBin, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(out))
	s := &secretive{t: t, addr: freeAddr(t), admin: freeAddr(t), secrets: map[string]string{
		"key": fields[1], "digest": fields[3], "prompt": "PROMPT-MARK"}}
	dir := t.TempDir()
	file, usage := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "usage.jsonl")
	yaml := fmt.Sprintf("listen: %s\nadmin: %s\npools:\n  - name: small\n    served: acme-8b\n    replicas: [%q]\nmodels: [{name: gpt-fast, pool: small}]\n"+
		"tenants:\n  - id: acme\n    tokens_per_minute: 1_000_000\n    keys: [%s]\nredis:\n  addresses: [%q]\n  policy: open\n  prefix: 'q:'\nusage: {file: %s, redis_stream: u}\n",
		s.addr, s.admin, "http://"+replica, fields[3], server.Addr, usage)
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway, logs := run(t, "http://"+s.addr+"/readyz", gatewayBin, "-config", file)
	s.use()
	s.check("the metrics", s.get("http://"+s.admin+"/metrics", 200))
	for _, addr := range []string{s.addr, s.admin} {
		s.check("the answer for profiles", s.get("http://"+addr+"/debug/pprof/goroutine?debug=2", 404))
	}
	gateway.Process.Signal(syscall.SIGTERM)
	if err := gateway.Wait(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	s.check("the log", logs.String())
	records, err := os.ReadFile(usage)
	if err != nil {
		t.Fatal(err)
	}
	s.check("the usage file", string(records))
	if n := bytes.Count(records, []byte("\n")); n < 3 {
		t.Errorf("%d records in the file: %s", n, records)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, DialTimeout: 5 * time.Second})
	defer client.Close()
	held := redistest.Dump(t, client)
	for key, text := range held {
		s.check("key "+key+" of Redis", text)
	}
	if held["q:{tacme}:h"] == "" || held["q:{tacme}:z"] == "" || !strings.Contains(held["u"], "acme") {
		t.Errorf("Redis holds %v, want the quota of acme and its records", held)
	}
}
