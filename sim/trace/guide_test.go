package trace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/sim/fleet"
	"github.com/expediterhq/expediter/sim/trace"
	"github.com/expediterhq/expediter/usage"
)

// guide returns the blocks of docs/simulator.md in a language.
func guide(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "simulator.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```\n")
		blocks = append(blocks, block)
	}
	return blocks
}

// TestGuide runs the guide's test of a scorer as a reader would, with its
// second test behind it.
func TestGuide(t *testing.T) {
	blocks := guide(t, "go")
	if len(blocks) < 2 || !strings.HasPrefix(blocks[0], "package rule\n") || !strings.HasPrefix(blocks[1], "func TestConforms(") {
		t.Fatalf("the guide begins with\n%s", strings.Join(blocks, "\n"))
	}
	const last = `	"github.com/expediterhq/expediter/router"` + "\n"
	both := strings.Replace(blocks[0], last, last+`	"github.com/expediterhq/expediter/router/routertest"`+"\n", 1) + "\n" + blocks[1]
	for name, code := range map[string]string{"as it is": blocks[0], "with the second": both} {
		path := filepath.Join(t.TempDir(), "rule_test.go")
		if err := os.WriteFile(path, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "go", "test", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if out, err := exec.CommandContext(t.Context(), "gofmt", "-l", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: not formatted, %v:\n%s", name, err, code)
		}
	}
}

// TestGuideMakesTraces runs the guide's command over usage records, of which
// one ended early, one was refused and the last breaks off.
func TestGuideMakesTraces(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	start := time.Date(2026, 11, 29, 23, 59, 59, 750e6, time.UTC)
	var records []byte
	for _, r := range []expediter.Record{
		{ID: "b", Time: start.Add(1250 * time.Millisecond), Tenant: "zenith", Input: 300, Output: 20},
		{ID: "a", Time: start, Tenant: "acme", Adapter: "sql", Input: 1800, Output: 50},
		{ID: "r", Time: start.Add(2 * time.Second), Tenant: "acme"},
		{ID: "c", Time: start.Add(time.Minute), Input: 1, Output: 1},
	} {
		records = append(usage.AppendJSON(records, &r), '\n')
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "usage.jsonl"), append(records, `{"id":"torn","ti`...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, script := range guide(t, "sh") {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, script, out)
		}
	}
	got, err := trace.Open(filepath.Join(dir, "day.jsonl"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []fleet.Request{
		{Tenant: "acme", Adapter: "sql", Prompt: 1800, Output: 50},
		{At: 1250 * time.Millisecond, Tenant: "zenith", Prompt: 300, Output: 20},
		{At: time.Minute, Prompt: 1, Output: 1},
	}
	if got.Format != "native" || !reflect.DeepEqual(got.Requests, want) {
		t.Errorf("%s trace of %+v, want %+v", got.Format, got.Requests, want)
	}
}

// TestGuideNamesTraces: the traces that the guide names are there.
func TestGuideNamesTraces(t *testing.T) {
	text := strings.Join(guide(t, "console"), "")
	for _, path := range []string{"sim/trace/testdata/chat.jsonl", "examples/policylab/testdata/conversation.jsonl.gz"} {
		if !strings.Contains(text, "-trace "+path+" ") {
			t.Errorf("no command of the guide has -trace %s", path)
		}
		if _, err := trace.Open(filepath.Join("..", "..", path), trace.Options{}); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(text, "-trace "); n != 2 {
		t.Errorf("the guide's commands name %d traces, want 2", n)
	}
}
