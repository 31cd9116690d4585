package chat_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"testing"
	"time"

	"github.com/expediterhq/expediter/tokenize/chat"
)

// goldenDir returns the folder with the reference renders, or skips the test.
func goldenDir(t testing.TB) string {
	t.Helper()
	root := os.Getenv("EXPEDITER_SHARED")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			if dir == filepath.Dir(dir) {
				t.Fatal("no go.mod above the package")
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared")
	}
	dir := filepath.Join(root, "golden", "tokenize")
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("EXPEDITER_REQUIRE_SHARED") == "1" {
			t.Fatalf("golden data not found: %v", err)
		}
		t.Skip("golden data not found; set EXPEDITER_SHARED")
	}
	return dir
}

var testNow = time.Date(2026, 1, 15, 9, 30, 0, 0, time.UTC)

type goldenConversation struct {
	ID       string          `json:"id"`
	Messages json.RawMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Add      bool            `json:"add_generation_prompt"`
	Continue bool            `json:"continue_final_message"`
	Kwargs   json.RawMessage `json:"kwargs"`
}

func (g *goldenConversation) input() chat.Input {
	return chat.Input{
		Messages: g.Messages, Tools: g.Tools, Kwargs: g.Kwargs,
		AddGenerationPrompt: &g.Add, ContinueFinalMessage: g.Continue,
		Preprocessed: true,
		Now:          testNow,
	}
}

type goldenRender struct {
	ID    string  `json:"id"`
	Text  *string `json:"text"`
	Error string  `json:"error"`
}

type goldenModel struct {
	Template string `json:"template"`
	BOS      string `json:"bos"`
	EOS      string `json:"eos"`
}

func readLines[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var v T
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, v)
	}
	if err := sc.Err(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

func goldenModels(t testing.TB, dir string) map[string]*chat.Template {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "chat", "models.json"))
	if err != nil {
		t.Fatal(err)
	}
	var models map[string]goldenModel
	if err := json.Unmarshal(raw, &models); err != nil {
		t.Fatal(err)
	}
	out := map[string]*chat.Template{}
	for name, m := range models {
		src, err := os.ReadFile(filepath.Join(dir, "templates", m.Template))
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := chat.Compile(string(src), chat.Options{BOS: m.BOS, EOS: m.EOS})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = tmpl
	}
	return out
}

// TestGolden compares every conversation and template with the reference.
func TestGolden(t *testing.T) {
	dir := goldenDir(t)
	convs := map[string]goldenConversation{}
	for _, c := range readLines[goldenConversation](t, filepath.Join(dir, "chat", "conversations.jsonl.gz")) {
		convs[c.ID] = c
	}
	models := goldenModels(t, dir)
	names := make([]string, 0, len(models))
	for name := range models {
		names = append(names, name)
	}
	sort.Strings(names)
	total := 0
	for _, name := range names {
		renders := readLines[goldenRender](t, filepath.Join(dir, "chat", "rendered-"+name+".jsonl.gz"))
		total += len(renders)
		t.Run(name, func(t *testing.T) {
			for _, want := range renders {
				c, ok := convs[want.ID]
				if !ok {
					t.Fatalf("no conversation %s", want.ID)
				}
				for range 3 { // the tools are new, seen before, and kept
					checkRender(t, models[name], &c, want)
				}
			}
		})
	}
	if total != 900 {
		t.Errorf("compared %d renders, want 900", total)
	}
}

func checkRender(t *testing.T, tmpl *chat.Template, c *goldenConversation, want goldenRender) {
	t.Helper()
	got, err := tmpl.Append([]byte("x"), c.input())
	if want.Text == nil {
		ce, ok := err.(*chat.Error)
		if !ok {
			t.Errorf("%s: error = %v, want %s", c.ID, err, want.Error)
		} else if msg := ce.Kind + ": " + ce.Message; msg != want.Error {
			t.Errorf("%s: error = %q, want %q", c.ID, msg, want.Error)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", c.ID, err)
		return
	}
	if string(got) != "x"+*want.Text {
		t.Errorf("%s:\n got %q\nwant %q", c.ID, got[1:], *want.Text)
	}
}

// TestGoldenContentFormat checks the content format found for the templates;
// the templates that are not listed take strings.
func TestGoldenContentFormat(t *testing.T) {
	parts := map[string]bool{"x_glm-5_2": true, "x_ministral-3-14b-instruct": true, "x_mistral-medium-3_5-128b-": true}
	for name, tmpl := range goldenModels(t, goldenDir(t)) {
		want := chat.FormatString
		if parts[name] {
			want = chat.FormatOpenAI
		}
		if got := tmpl.ContentFormat(); got != want {
			t.Errorf("%s: ContentFormat = %v, want %v", name, got, want)
		}
	}
}

// TestGoldenAllocs checks that a warm render allocates little: the memory of
// decoded values is used again.
func TestGoldenAllocs(t *testing.T) {
	dir := goldenDir(t)
	tmpl := goldenModels(t, dir)["qwen3"]
	for _, c := range readLines[goldenConversation](t, filepath.Join(dir, "chat", "conversations.jsonl.gz")) {
		if c.ID != "c047" { // parallel tool calls
			continue
		}
		in := c.input()
		dst := make([]byte, 0, 1<<16)
		got := testing.AllocsPerRun(100, func() {
			if _, err := tmpl.Append(dst, in); err != nil {
				t.Fatal(err)
			}
		})
		if got > 50 { // half of it is room for the race detector, which drops pooled memory
			t.Errorf("Append = %v allocations, want at most 50", got)
		}
		return
	}
	t.Fatal("no conversation c047")
}
