package clients

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/expediterhq/expediter/quota"
)

var printed = regexp.MustCompile(`http://([0-9.:]+)/v1/chat/completions -H 'Authorization: Bearer ([^']+)'`)

// TestDemoBinary builds the example gateway, starts it with no configuration,
// talks to it as its own output says, and stops it while a stream runs.
func TestDemoBinary(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "gateway")
	build := exec.Command("go", "build", "-o", bin, "./examples/gateway")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.Command(bin, "-addr", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	check(t, err)
	var logs bytes.Buffer
	cmd.Stderr = &logs
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	var addr, key string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := printed.FindStringSubmatch(lines.Text()); m != nil {
			addr, key = m[1], m[2]
		}
		if strings.HasPrefix(lines.Text(), "Metrics:") {
			break
		}
	}
	if addr == "" {
		t.Fatalf("no curl line printed; log: %s", logs.String())
	}
	c := openai.NewClient(option.WithBaseURL("http://"+addr+"/v1"), option.WithAPIKey(key))
	got, err := c.Chat.Completions.New(t.Context(), chatParams("gpt-fast", 8))
	check(t, err)
	if got.Usage.CompletionTokens != 8 {
		t.Errorf("completion = %s", got.RawJSON())
	}
	resp, err := http.Get("http://" + addr + "/readyz")
	check(t, err)
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("/readyz = %d, want 200", resp.StatusCode)
	}
	s := c.Chat.Completions.NewStreaming(t.Context(), chatParams("gpt-fast", 60))
	if !s.Next() {
		t.Fatal(s.Err())
	}
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	tokens := 0
	for s.Next() {
		tokens++
	}
	check(t, s.Err())
	if tokens < 60 {
		t.Errorf("the stream ended after %d chunks; a drain lets it finish", tokens)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the gateway ended with %v; log: %s", err, logs.String())
		}
	case <-time.After(30 * time.Second):
		t.Error("the gateway did not end after SIGTERM")
	}
	if strings.Contains(logs.String(), key) {
		t.Error("the log holds the key")
	}
}

// TestBinaryMistakes: what stops the gateway from starting is one clear line
// and a status other than 0.
func TestBinaryMistakes(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "gateway")
	build := exec.Command("go", "build", "-o", bin, "./examples/gateway")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	taken := start(t, quota.Limit{}).url
	example, err := os.ReadFile("../examples/gateway/config.example.yaml")
	check(t, err)
	deadRedis := filepath.Join(t.TempDir(), "redis.yaml")
	check(t, os.WriteFile(deadRedis, append(example, []byte("\nredis:\n  addresses:\n    - 127.0.0.1:1\n  policy: closed\n")...), 0o600))
	noReplica := filepath.Join(t.TempDir(), "replica.yaml")
	check(t, os.WriteFile(noReplica, []byte(`
pools:
  - {name: small, served: acme-8b, replicas: ["http://127.0.0.1:1"]}
models:
  - {name: gpt-fast, pool: small}
tenants:
  - {id: acme, keys: [9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]}
`), 0o600))
	for _, tc := range []struct {
		name string
		args []string
		says string
	}{
		{"port taken", []string{"-addr", strings.TrimPrefix(taken, "http://")}, "address already in use"},
		{"no such file", []string{"-config", "nowhere.yaml"}, "nowhere.yaml"},
		{"Redis absent", []string{"-config", deadRedis, "-addr", "127.0.0.1:0"}, "cannot reach Redis at 127.0.0.1:1"},
		{"replica absent", []string{"-config", noReplica, "-addr", "127.0.0.1:0"}, `no replica of pool "small" answers (http://127.0.0.1:1)`},
		{"unknown flag", []string{"-nonsense"}, "nonsense"},
		{"unknown command", []string{"start"}, `unexpected argument "start"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := exec.Command(bin, tc.args...).CombinedOutput()
			if err == nil {
				t.Errorf("exit status 0; output %s", out)
			}
			if !strings.Contains(string(out), tc.says) {
				t.Errorf("output = %s, want a line that says %q", out, tc.says)
			}
		})
	}
}
