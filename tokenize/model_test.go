package tokenize_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// tinyTokenizer is a byte-level model with a few tokens.
const tinyTokenizer = `{
 "added_tokens": [
  {"id": 6, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
  {"id": 7, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
 ],
 "normalizer": null,
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
 "post_processor": {"type": "TemplateProcessing",
  "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
  "special_tokens": {"</s>": {"id": "</s>", "ids": [7], "tokens": ["</s>"]}}},
 "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "ab": 4, "abc": 5}, "merges": ["a b", "ab c"]}
}`

func folder(files ...string) fstest.MapFS {
	fsys := fstest.MapFS{"tokenizer.json": {Data: []byte(tinyTokenizer)}}
	for i := 0; i < len(files); i += 2 {
		fsys[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return fsys
}

func gzipped(t testing.TB, s string) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	if _, err := zw.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestAppendPromptFollowsTheTokenizerClass(t *testing.T) {
	const tokens = `"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>"}`
	tests := []struct {
		name, config string
		want         []uint32
	}{
		{"no config: post-processor", "", []uint32{5, 7}},
		{"other class: post-processor", `{"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": true, ` + tokens + `}`, []uint32{5, 7}},
		{"own rule by default", `{"tokenizer_class": "LlamaTokenizerFast", ` + tokens + `}`, []uint32{6, 5}},
		{"own rule both", `{"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "add_eos_token": true, ` + tokens + `}`, []uint32{6, 5, 7}},
		{"own rule neither", `{"tokenizer_class": "GemmaTokenizer", "add_bos_token": false, ` + tokens + `}`, []uint32{5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := folder()
			if tt.config != "" {
				fsys = folder("tokenizer_config.json", tt.config)
			}
			m, err := tokenize.Load(fsys)
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.AppendPrompt([]uint32{9}, "abc")
			if err != nil || !slices.Equal(got, append([]uint32{9}, tt.want...)) {
				t.Errorf("AppendPrompt = %v, %v, want 9 and %v", got, err, tt.want)
			}
			special, err := m.Tokenizer().AppendWith(nil, "abc", tokenize.Options{Special: true})
			if err != nil || !slices.Equal(special, []uint32{5, 7}) {
				t.Errorf("AppendWith Special = %v, %v, want the post-processor's 5 7", special, err)
			}
		})
	}
}

func TestPostProcessorWinsWhereAskedTo(t *testing.T) {
	m, err := tokenize.LoadWith(folder("tokenizer_config.json", `{"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>"}`),
		tokenize.Config{PostProcessor: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.AppendPrompt(nil, "abc"); err != nil || !slices.Equal(got, []uint32{5, 7}) {
		t.Errorf("AppendPrompt = %v, %v, want the post-processor's 5 7", got, err)
	}
}

func TestLoadChoosesTheTemplate(t *testing.T) {
	tests := []struct {
		name, want string
		fsys       fs.FS
	}{
		{"config", "config abc", folder("tokenizer_config.json", `{"chat_template": "config {{ messages[0].content }}"}`)},
		{"file wins", "file abc", folder("tokenizer_config.json", `{"chat_template": "config"}`, "chat_template.jinja", "file {{ messages[0].content }}")},
		{"default of a list", "d abc", folder("tokenizer_config.json",
			`{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d {{ messages[0].content }}"}]}`)},
		{"tokens", "<s>abc</s>", folder("tokenizer_config.json",
			`{"bos_token": "<s>", "eos_token": "</s>", "chat_template": "{{ bos_token + messages[0].content + eos_token }}"}`)},
	}
	in := chat.Input{Messages: json.RawMessage(`[{"role": "user", "content": "abc"}]`)}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := tokenize.Load(tt.fsys)
			if err != nil {
				t.Fatal(err)
			}
			if text, _, err := m.AppendText(nil, in); string(text) != tt.want || err != nil {
				t.Errorf("AppendText = %q, %v, want %q", text, err, tt.want)
			}
		})
	}
	m, err := tokenize.Load(folder())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.AppendChat(nil, in); !errors.Is(err, tokenize.ErrNoTemplate) {
		t.Errorf("AppendChat without a template = %v, want ErrNoTemplate", err)
	}
}

func TestAppendChatAddsNoSpecialTokens(t *testing.T) {
	m, err := tokenize.Load(folder("tokenizer_config.json",
		`{"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "chat_template": "<s>{{ messages[0].content }}"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.AppendChat([]uint32{9}, chat.Input{Messages: json.RawMessage(`[{"role": "user", "content": "ab</s>c"}]`)})
	if want := []uint32{9, 6, 4, 7, 2}; err != nil || !slices.Equal(got, want) {
		t.Errorf("AppendChat = %v, %v, want %v", got, err, want)
	}
}

func TestAppendChatOfHarmony(t *testing.T) {
	file := strings.ReplaceAll(tinyTokenizer, `"id": 7, "content": "</s>"`, `"id": 7, "content": "<|end|>"`)
	m, err := tokenize.Load(fstest.MapFS{
		"tokenizer.json":      {Data: []byte(file)},
		"config.json":         {Data: []byte(`{"model_type": "gpt_oss", "limits": [0.0, Infinity]}`)},
		"chat_template.jinja": {Data: []byte(`not used`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := chat.Input{
		Messages: json.RawMessage(`[{"role": "user", "content": "abc<|end|>c"}]`),
		Now:      time.Date(2026, 1, 15, 9, 30, 0, 0, time.UTC),
	}
	text, _, err := m.AppendText(nil, in)
	if err != nil || !strings.Contains(string(text), "<|start|>user<|message|>abc<|end|>c<|end|>") {
		t.Fatalf("AppendText = %q, %v", text, err)
	}
	ids, err := m.AppendChat(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	// The system message ends with a token, the user's message with another;
	// what the user spelled stays text, of which this model knows no byte.
	ends := 0
	for _, id := range ids {
		if id == 7 {
			ends++
		}
	}
	i := slices.Index(ids, 5)
	if ends != 2 || i < 0 || !slices.Equal(ids[i:i+3], []uint32{5, 2, 7}) {
		t.Errorf("AppendChat = %v, want 7 twice and 5 2 7 once", ids)
	}
}

func TestLoadReadsGzip(t *testing.T) {
	m, err := tokenize.Load(fstest.MapFS{"tokenizer.json.gz": {Data: gzipped(t, tinyTokenizer)}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Tokenizer().Append(nil, "ab"); err != nil || !slices.Equal(got, []uint32{4}) {
		t.Errorf("Append = %v, %v, want 4", got, err)
	}
	packed := gzipped(t, tinyTokenizer)
	_, err = tokenize.Load(fstest.MapFS{"tokenizer.json.gz": {Data: packed[:len(packed)/2]}})
	var format *tokenize.FormatError
	if !errors.As(err, &format) {
		t.Errorf("Load of a truncated file = %v, want a FormatError", err)
	}
}

func TestLoadFails(t *testing.T) {
	tests := []struct {
		name string
		fsys fs.FS
		want string
	}{
		{"empty folder", fstest.MapFS{}, "tokenizer.json"},
		{"bad config", folder("tokenizer_config.json", `{"bos_token": `), "tokenizer_config.json"},
		{"unknown bos", folder("tokenizer_config.json", `{"tokenizer_class": "LlamaTokenizer", "bos_token": "<x>"}`), `bos_token "<x>" is no token`},
		{"bad template", folder("chat_template.jinja", `{% if %}`), "chat template"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tokenize.Load(tt.fsys); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load = %v, want an error about %s", err, tt.want)
			}
		})
	}
}

func TestLoadWithLimits(t *testing.T) {
	fsys := folder("chat_template.jinja", "<s>{{ messages[0].content }}")
	tests := []struct {
		name string
		cfg  tokenize.Config
		text string
		fail bool
	}{
		{"tokens fit", tokenize.Config{MaxTokens: 3}, "abcab", false},
		{"tokens do not", tokenize.Config{MaxTokens: 3}, "abcabc<s>", true},
		{"bytes fit", tokenize.Config{MaxBytes: 5}, "abcab", false},
		{"bytes do not", tokenize.Config{MaxBytes: 5}, "abcabc", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := tokenize.LoadWith(fsys, tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.AppendPrompt(nil, tt.text); errors.Is(err, tokenize.ErrTooLong) != tt.fail {
				t.Errorf("AppendPrompt = %v, want too long: %v", err, tt.fail)
			}
		})
	}
}

func TestDemoRendersChat(t *testing.T) {
	m, err := tokenize.Load(demo.Files)
	if err != nil {
		t.Fatal(err)
	}
	in := chat.Input{
		Messages: json.RawMessage(`[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]`),
		Tools:    json.RawMessage(`[{"type": "function", "function": {"name": "f"}}]`),
	}
	text, _, err := m.AppendText(nil, in)
	want := "<|im_start|>system\nBe brief.\n\nYou can call these functions:\n" +
		`{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}` +
		"\nTo call one, answer with its name and arguments as JSON.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
	if err != nil || string(text) != want {
		t.Fatalf("AppendText = %q, %v, want %q", text, err, want)
	}
	ids, err := m.AppendChat(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := m.Tokenizer().Decode(ids); err != nil || back != want {
		t.Errorf("Decode of AppendChat = %q, %v, want the text", back, err)
	}
	in.Messages = json.RawMessage(`[{"role": "user", "content": "Hi"}, {"role": "system", "content": "late"}]`)
	var refused *chat.Error
	if _, err := m.AppendChat(nil, in); !errors.As(err, &refused) {
		t.Errorf("AppendChat of a late system message = %v, want a chat.Error", err)
	}
}

type goldenChatModel struct {
	Template  string  `json:"template"`
	BOS       *string `json:"bos"`
	EOS       *string `json:"eos"`
	Tokenizer string  `json:"tokenizer"`
}

type goldenConversation struct {
	ID       string          `json:"id"`
	Messages json.RawMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Generate *bool           `json:"add_generation_prompt"`
	Continue bool            `json:"continue_final_message"`
	Kwargs   json.RawMessage `json:"kwargs"`
}

// TestGoldenChatIDs takes conversations through a whole model folder.
func TestGoldenChatIDs(t *testing.T) {
	dir := goldenDir(t)
	raw, err := os.ReadFile(filepath.Join(dir, "chat", "models.json"))
	if err != nil {
		t.Fatal(err)
	}
	var models map[string]goldenChatModel
	if err := json.Unmarshal(raw, &models); err != nil {
		t.Fatal(err)
	}
	conversations := map[string]goldenConversation{}
	for _, c := range readLines[goldenConversation](t, filepath.Join(dir, "chat", "conversations.jsonl.gz")) {
		conversations[c.ID] = c
	}
	for name, gm := range models {
		if !slices.Contains(testedModels(), gm.Tokenizer) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m := goldenChatFolder(t, dir, gm)
			compared := 0
			for _, want := range readLines[goldenIDs](t, filepath.Join(dir, "chat", "rendered-"+name+".jsonl.gz")) {
				if want.IDs == nil {
					continue
				}
				compared++
				c := conversations[want.ID]
				got, err := m.AppendChat(nil, chat.Input{
					Messages: c.Messages, Tools: c.Tools, Kwargs: c.Kwargs, AddGenerationPrompt: c.Generate,
					ContinueFinalMessage: c.Continue, Preprocessed: true,
					Now: time.Date(2026, 1, 15, 9, 30, 0, 0, time.UTC),
				})
				if err != nil || !slices.Equal(got, want.IDs) {
					t.Errorf("%s: %d ids, error %v, want %d ids", want.ID, len(got), err, len(want.IDs))
				}
			}
			if compared < 30 {
				t.Errorf("only %d conversations compared", compared)
			}
		})
	}
}

func goldenChatFolder(t *testing.T, dir string, gm goldenChatModel) *tokenize.Model {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, path := range map[string]string{
		"tokenizer.json.gz":   filepath.Join(dir, "tokenizers", gm.Tokenizer, "tokenizer.json.gz"),
		"chat_template.jinja": filepath.Join(dir, "templates", gm.Template),
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fsys[name] = &fstest.MapFile{Data: data}
	}
	config, err := json.Marshal(map[string]*string{"bos_token": gm.BOS, "eos_token": gm.EOS})
	if err != nil {
		t.Fatal(err)
	}
	fsys["tokenizer_config.json"] = &fstest.MapFile{Data: config}
	m, err := tokenize.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
