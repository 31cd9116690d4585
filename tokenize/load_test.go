package tokenize_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tokenize"
)

// tinyWith returns tinyTokenizer with one piece of text replaced.
func tinyWith(t *testing.T, old, replacement string) []byte {
	t.Helper()
	if strings.Count(tinyTokenizer, old) != 1 {
		t.Fatalf("%q is not once in tinyTokenizer", old)
	}
	return []byte(strings.Replace(tinyTokenizer, old, replacement, 1))
}

func TestNewBPENamesWhatIsNotSupported(t *testing.T) {
	const (
		pre    = `{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},` + "\n"
		norm   = `"normalizer": null`
		modelT = `"type": "BPE",`
		post   = `"post_processor": {"type": "TemplateProcessing",`
	)
	tests := []struct{ name, old, replacement, want string }{
		{"unigram", modelT, `"type": "Unigram",`, `model: type "Unigram"`},
		{"wordpiece", modelT, `"type": "WordPiece",`, `model: type "WordPiece"`},
		{"dropout", modelT, `"type": "BPE", "dropout": 0.1,`, "dropout"},
		{"subword prefix", modelT, `"type": "BPE", "continuing_subword_prefix": "##",`, "continuing_subword_prefix"},
		{"word suffix", modelT, `"type": "BPE", "end_of_word_suffix": "</w>",`, "end_of_word_suffix"},
		{"byte fallback of bytes", modelT, `"type": "BPE", "byte_fallback": true,`, "byte_fallback"},
		{"normalizer", norm, `"normalizer": {"type": "NFKC"}`, `normalizer: type "NFKC"`},
		{"precompiled", norm, `"normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": ""}]}`, `type "Precompiled"`},
		{"replace by pattern", norm, `"normalizer": {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}`, "Replace"},
		{"pre-tokenizer", pre, `{"type": "WhitespaceSplit"},` + "\n", `pre_tokenizer: type "WhitespaceSplit"`},
		{"prefix space", pre, `{"type": "ByteLevel", "add_prefix_space": true},` + "\n", "add_prefix_space"},
		{"pattern", pre, `{"type": "Split", "pattern": {"Regex": "(?<=a)b"}, "behavior": "Isolated"},` + "\n", "unsupported group"},
		{"split removes", pre, `{"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Removed"},` + "\n", `behavior "Removed"`},
		{"split inverts", pre, `{"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Isolated", "invert": true},` + "\n", "invert"},
		{"split at text", pre, `{"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated"},` + "\n", "Split at a fixed text"},
		{"bytes twice", pre, `{"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": false}, {"type": "ByteLevel", "add_prefix_space": false}]},` + "\n", "ByteLevel after ByteLevel"},
		{"post-processor", post, `"post_processor": {"type": "BertProcessing",`, `post_processor: type "BertProcessing"`},
		{"template without text", `{"Sequence": {"id": "A", "type_id": 0}}, `, ``, "text once"},
		{"single word", `"content": "<s>", "single_word": false`, `"content": "<s>", "single_word": true`, `single_word of "<s>"`},
		{"lstrip", `"content": "<s>", "single_word": false, "lstrip": false`, `"content": "<s>", "lstrip": true`, `lstrip of "<s>"`},
		{"rstrip", `"content": "<s>", "single_word": false, "lstrip": false, "rstrip": false`, `"content": "<s>", "rstrip": true`, `rstrip of "<s>"`},
		{"same token twice", `"content": "</s>"`, `"content": "<s>"`, "equals another one"},
		{"merge of unknown", modelT, `"type": "BPE", "unk_token": "ab",`, "byte fallback or unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tokenize.NewBPE(tinyWith(t, tt.old, tt.replacement))
			var unsupported *tokenize.UnsupportedError
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("NewBPE = %v, want an error about %s", err, tt.want)
			}
			if !errors.As(err, &unsupported) {
				t.Errorf("NewBPE = %T, want an UnsupportedError", err)
			}
		})
	}
}

func TestNewBPERefusesMalformedFiles(t *testing.T) {
	tests := []struct{ name, old, replacement, want string }{
		{"no vocab", `"vocab":`, `"words":`, "vocab or merges missing"},
		{"no merges", `"merges":`, `"pairs":`, "vocab or merges missing"},
		{"two tokens of one id", `"b": 1`, `"b": 0`, "two tokens have id 0"},
		{"one token of two ids", `"b": 1`, `"a": 1`, "same token"},
		{"huge id", `"b": 1`, `"b": 4000000000`, "out of proportion"},
		{"negative id", `"b": 1`, `"b": -1`, "whole number"},
		{"merge of three", `"a b"`, `"a b c"`, "more than one space"},
		{"merge of one", `"a b"`, `"ab"`, "no space"},
		{"merge of no token", `"a b"`, `"a x"`, "not in the vocabulary"},
		{"merge to no token", `"a b"`, `"b c"`, "not in the vocabulary"},
		{"merge list of three", `"a b"`, `["a", "b", "c"]`, "more than two"},
		{"merge list of one", `"a b"`, `["a"]`, "merge of 1 tokens"},
		{"lone surrogate", `"ab": 4`, `"a\ud800": 4`, "unpaired surrogate"},
		{"unknown token of unk", `"type": "BPE"`, `"type": "BPE", "unk_token": "x"`, `"x" is not in the vocabulary`},
		{"wrong id of an added token", `"id": 7`, `"id": 9`, "expected 7"},
		{"added token without template", `"special_tokens": {"</s>"`, `"special_tokens": {"<s>"`, `no special token "</s>"`},
		{"duplicate part", `"normalizer": null`, `"normalizer": null, "normalizer": null`, "duplicate key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tokenize.NewBPE(tinyWith(t, tt.old, tt.replacement))
			var format *tokenize.FormatError
			if !errors.As(err, &format) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("NewBPE = %v, want a FormatError about %s", err, tt.want)
			}
		})
	}
	for _, data := range []string{"", "[]", "{}", `{"model": null}`, `{"model": {}} x`, tinyTokenizer[:len(tinyTokenizer)-1]} {
		if _, err := tokenize.NewBPE([]byte(data)); err == nil {
			t.Errorf("NewBPE(%.20q) succeeded", data)
		}
	}
}

func TestNewBPEReadsTheFamiliesForms(t *testing.T) {
	const (
		gemma = `"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
 "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false},`
		llama = `"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
 "pre_tokenizer": null,`
		post = `"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel", "trim_offsets": false},
  {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [1]}}}]},`
		pre = `"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},`
	)
	tests := []struct {
		name, parts string
		want        []uint32
	}{
		{"gemma", gemma, []uint32{3, 5, 1, 3}},
		{"llama 2", llama, []uint32{5, 5, 1, 5}},
		{"mistral with template", pre + post, []uint32{1, 5, 5, 1, 3}},
		{"always", strings.Replace(pre, "first", "always", 1), []uint32{5, 5, 1, 5}},
		{"never", strings.Replace(pre, "first", "never", 1), []uint32{3, 5, 1, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old := pre
			if !strings.Contains(spm, old) {
				t.Fatal("spm has another pre-tokenizer")
			}
			b := mustBPE(t, strings.Replace(spm, old, tt.parts, 1))
			got, err := b.AppendWith(nil, "a a<s>a", tokenize.Options{Special: true})
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("AppendWith = %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestMetaspaceIsChecked(t *testing.T) {
	for _, parts := range []string{
		`"replacement": "▁", "prepend_scheme": "last"`,
		`"replacement": "▁", "prepend_scheme": "first", "add_prefix_space": false`,
		`"replacement": ""`, `"replacement": "ab"`, `"replacement": " "`,
	} {
		file := strings.Replace(spm, `"replacement": "▁", "prepend_scheme": "first", "split": false`, parts, 1)
		if _, err := tokenize.NewBPE([]byte(file)); err == nil {
			t.Errorf("NewBPE accepted a Metaspace with %s", parts)
		}
	}
}

func TestNewBPEReadsBothFormsOfMerges(t *testing.T) {
	b, err := tokenize.NewBPE(tinyWith(t, `["a b", "ab c"]`, `[["a", "b"], ["ab", "c"]]`))
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := b.Append(nil, "abc"); err != nil || len(ids) != 1 || ids[0] != 5 {
		t.Errorf("Append = %v, %v, want 5", ids, err)
	}
}

func FuzzNewBPE(f *testing.F) {
	f.Add([]byte(tinyTokenizer), "abc <s>")
	f.Add([]byte(strings.Replace(tinyTokenizer, `"normalizer": null`, `"normalizer": {"type": "NFC"}`, 1)), "e\u0301")
	f.Add([]byte(`{"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},
 "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "vocab": {"<unk>": 0, "▁": 1, "a": 2, "▁a": 3}, "merges": ["▁ a"]}}`), "a  a")
	f.Add([]byte(`{"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\s+(?!\\S)|\\p{L}+"}, "behavior": "Isolated", "invert": false},
 {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}, "model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]], "ignore_merges": true}}`), "ab b")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		if len(file) > 1<<16 || len(text) > 1<<12 {
			return
		}
		b, err := tokenize.NewBPE(file)
		if err != nil {
			return
		}
		ids, err := b.Append(nil, text)
		if err != nil {
			return
		}
		if n, err := b.Count(text); err != nil || n != len(ids) {
			t.Errorf("Count = %d, %v, want %d", n, err, len(ids))
		}
		if _, err := b.Decode(ids); err != nil && !errors.As(err, new(*tokenize.UnsupportedError)) {
			t.Errorf("Decode of own ids: %v", err)
		}
	})
}
