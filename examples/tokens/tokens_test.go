package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func output1(t *testing.T, in string, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(args, strings.NewReader(in), &out, os.Stderr); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// modelDir writes a model of a few tokens.
func modelDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tokenizer.json": `{
 "added_tokens": [{"id": 4, "content": "<s>", "normalized": false, "special": true}],
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
 "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<s>"}}],
  "special_tokens": {"<s>": {"ids": [4]}}},
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3}, "merges": [["a", "b"]]}
}`,
		"tokenizer_config.json": `{"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>"}`,
		"chat_template.jinja": "{% if messages[0].role != 'user' %}{{ raise_exception('no') }}{% endif %}" +
			"{{ bos_token + messages[0].content + strftime_now(' %Y') }}{% if add_generation_prompt %}ab{% endif %}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRun(t *testing.T) {
	dir := modelDir(t)
	tests := []struct {
		name, in, want string
		args           []string
	}{
		{"texts", `{"id": "x", "text": "ab a<s>"}` + "\n\n" + `{"id": 2, "text": ""}`, `{"id":"x","ids":[3,2,0,4]}` + "\n" + `{"id":2,"ids":[]}` + "\n", nil},
		{"special", `{"id": 1, "text": "ab"}`, `{"id":1,"ids":[3,4]}` + "\n", []string{"-special"}},
		{"prompt", `{"id": 1, "text": "ab"}`, `{"id":1,"ids":[4,3]}` + "\n", []string{"-prompt"}},
		{"count", `{"id": 1, "text": "ab a"}`, `{"id":1,"n":3}` + "\n", []string{"-count"}},
		{"lone surrogate", `{"id": 1, "text": "a\ud800"}`, `{"id":1,"error":"the line is not valid Unicode"}` + "\n", nil},
		{"pair of surrogates", `{"id": 1, "text": "a\ud83d\ude00"}`, `{"id":1,"ids":[0]}` + "\n", nil},
		{"escaped backslash", `{"id": 1, "text": "\\ud800"}`, `{"id":1,"ids":[]}` + "\n", nil},
		{"chat", `{"id": 1, "messages": [{"role": "user", "content": "b<"}]}`, `{"id":1,"text":"<s>b< 2026ab"}` + "\n", []string{"-chat", "-now", "2026-01-15T09:30:00Z"}},
		{"chat on a date", `{"id": 1, "messages": [{"role": "user", "content": "b"}]}`, `{"id":1,"text":"<s>b 2025ab"}` + "\n", []string{"-chat", "-now", "2025-06-01"}},
		{"chat without generation", `{"id": 1, "messages": [{"role": "user", "content": "b"}], "add_generation_prompt": false}`,
			`{"id":1,"text":"<s>b 2026"}` + "\n", []string{"-chat", "-now", "2026-01-15T09:30:00Z"}},
		{"chat count", `{"id": 1, "messages": [{"role": "user", "content": "b"}]}`, `{"id":1,"n":4}` + "\n", []string{"-chat", "-count"}},
		{"chat refused", `{"id": 1, "messages": [{"role": "tool", "content": "b"}]}`, `{"id":1,"error":"TemplateError: no"}` + "\n", []string{"-chat"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := output1(t, tt.in, append([]string{"-model", dir}, tt.args...)...); got != tt.want {
				t.Errorf("output = %s want %s", got, tt.want)
			}
		})
	}
}

func TestRunFails(t *testing.T) {
	dir := modelDir(t)
	tests := []struct {
		name, in string
		args     []string
	}{
		{"not json", "{", []string{"-model", dir}},
		{"no text", `{"id": 1}`, []string{"-model", dir}},
		{"no model", "", []string{"-model", filepath.Join(dir, "absent")}},
		{"contradiction", "", []string{"-chat", "-special"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := run(tt.args, strings.NewReader(tt.in), &strings.Builder{}, os.Stderr); err == nil {
				t.Error("run succeeded, want an error")
			}
		})
	}
}

func TestBadClock(t *testing.T) {
	for _, now := range []string{"noon", "2026-13-01", "2026-01-15T09:30"} {
		err := run([]string{"-now", now}, strings.NewReader(""), &strings.Builder{}, os.Stderr)
		want := `-now is "` + now + `", want a time as 2026-01-15 or 2026-01-15T09:30:00Z`
		if err == nil || err.Error() != want {
			t.Errorf("-now %s: %v, want %s", now, err, want)
		}
	}
}

// TestNamesTheFolder: an error tells where files were looked for.
func TestNamesTheFolder(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	err := run([]string{"-model", absent}, strings.NewReader(""), &strings.Builder{}, os.Stderr)
	want := `-model: cannot load the folder "` + absent + `": tokenize: open tokenizer.json: no such file or directory`
	if err == nil || err.Error() != want {
		t.Errorf("run = %v, want %s", err, want)
	}
}

func TestRunWithoutModelUsesTheDemo(t *testing.T) {
	if got := output1(t, `{"id": 1, "text": "the server"}`, "-count"); got != `{"id":1,"n":2}`+"\n" {
		t.Errorf("output = %s", got)
	}
}
