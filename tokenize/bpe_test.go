package tokenize_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize"
)

// spm is a model of the SentencePiece kind.
const spm = `{
 "added_tokens": [{"id": 0, "content": "<unk>", "special": true, "normalized": false}, {"id": 1, "content": "<s>", "special": true, "normalized": false}],
 "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},
 "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
 "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "vocab": {"<unk>": 0, "<s>": 1, "▁": 2, "a": 3, "b": 4, "▁a": 5, "▁▁": 6, "é": 7}, "merges": ["▁ ▁", "▁ a"]}
}`

func mustBPE(t testing.TB, file string) *tokenize.BPE {
	t.Helper()
	b, err := tokenize.NewBPE([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAppend(t *testing.T) {
	tests := []struct {
		name, file, text string
		want             []uint32
	}{
		{"empty", tinyTokenizer, "", nil},
		{"merges", tinyTokenizer, "abc", []uint32{5}},
		{"leftmost of equals", tinyTokenizer, "abab", []uint32{4, 4}},
		{"words are apart", tinyTokenizer, "ab c", []uint32{4, 3, 2}},
		{"unknown bytes vanish", tinyTokenizer, "axb", []uint32{4}},
		{"added tokens", tinyTokenizer, "ab<s>c</s></s>", []uint32{4, 6, 2, 7, 7}},
		{"no added token", tinyTokenizer, "<s", nil},
		{"prefix at the start only", spm, "a<s>a", []uint32{5, 1, 3}},
		{"spaces", spm, "  a", []uint32{6, 3}},
		{"unknown characters fuse", spm, "xyzb", []uint32{2, 0, 4}},
		{"not ascii", spm, " é", []uint32{2, 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mustBPE(t, tt.file).Append([]uint32{99}, tt.text)
			if err != nil || !slices.Equal(got, append([]uint32{99}, tt.want...)) {
				t.Errorf("Append(%q) = %v, %v, want 99 and %v", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestInvalidTextIsRefused(t *testing.T) {
	b := mustBPE(t, tinyTokenizer)
	for _, text := range []string{"\xff", "a\xc3", "\xed\xa0\x80"} {
		_, err := b.Append(nil, text)
		_, countErr := b.Count(text)
		visitErr := b.Visit(text, tokenize.Options{}, func([]uint32) error { return nil })
		for _, err := range []error{err, countErr, visitErr} {
			if !errors.Is(err, tokenize.ErrInvalidUTF8) {
				t.Errorf("%q: error %v, want ErrInvalidUTF8", text, err)
			}
		}
	}
}

func TestCostlyPatternsStop(t *testing.T) {
	b := mustBPE(t, strings.Replace(tinyTokenizer, `{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},`,
		`{"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?:a|aa)+b"}, "behavior": "Isolated"}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},`, 1))
	if _, err := b.Append(nil, strings.Repeat("a", 500)); !errors.Is(err, tokenize.ErrTooComplex) {
		t.Errorf("Append = %v, want ErrTooComplex", err)
	}
	if got, err := b.Append(nil, "aabab"); err != nil || len(got) != 3 {
		t.Errorf("Append after it = %v, %v, want 3 ids", got, err)
	}
}

func TestLimits(t *testing.T) {
	b := mustBPE(t, tinyTokenizer)
	text := strings.Repeat("ab ", 1000) // 2,000 tokens
	tests := []struct {
		name string
		opt  tokenize.Options
		unit string
	}{
		{"none", tokenize.Options{}, ""},
		{"tokens fit", tokenize.Options{MaxTokens: 2000}, ""},
		{"tokens do not", tokenize.Options{MaxTokens: 1999}, "tokens"},
		{"special tokens count", tokenize.Options{MaxTokens: 2000, Special: true}, "tokens"},
		{"special tokens fit", tokenize.Options{MaxTokens: 2001, Special: true}, ""},
		{"few tokens", tokenize.Options{MaxTokens: 1}, "tokens"},
		{"bytes fit", tokenize.Options{MaxBytes: 3000}, ""},
		{"bytes do not", tokenize.Options{MaxBytes: 2999}, "bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := b.AppendWith(nil, text, tt.opt)
			visited := 0
			visitErr := b.Visit(text, tt.opt, func(ids []uint32) error {
				visited += len(ids)
				return nil
			})
			for _, err := range []error{err, visitErr} {
				var limit *tokenize.LimitError
				if tt.unit == "" && err != nil {
					t.Errorf("error %v, want none", err)
				}
				if tt.unit != "" && (!errors.As(err, &limit) || limit.Unit != tt.unit || !errors.Is(err, tokenize.ErrTooLong)) {
					t.Errorf("error %v, want a LimitError in %s", err, tt.unit)
				}
			}
			if limit := tt.opt.MaxTokens; tt.unit == "tokens" && (visited > limit || len(got) > limit+100) {
				t.Errorf("%d ids visited, %d appended, past a limit of %d", visited, len(got), limit)
			}
		})
	}
}

func TestVisitStops(t *testing.T) {
	b := mustBPE(t, tinyTokenizer)
	text := strings.Repeat("ab ", 10_000)
	stop, chunks := errors.New("enough"), 0
	err := b.Visit(text, tokenize.Options{}, func(ids []uint32) error {
		if chunks++; chunks == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || chunks != 3 {
		t.Errorf("Visit = %v after %d chunks, want the visitor's error after 3", err, chunks)
	}
	if got, err := b.Append(nil, "abc"); err != nil || !slices.Equal(got, []uint32{5}) {
		t.Errorf("Append after it = %v, %v, want 5", got, err)
	}
	special := []uint32(nil)
	if err := b.Visit("abc", tokenize.Options{Special: true}, func(ids []uint32) error {
		special = append(special, ids...)
		return nil
	}); err != nil || !slices.Equal(special, []uint32{5, 7}) {
		t.Errorf("Visit with special tokens = %v, %v, want 5 7", special, err)
	}
}

func TestDecode(t *testing.T) {
	tests := []struct {
		name, file, want string
		ids              []uint32
	}{
		{"bytes", tinyTokenizer, "<s>abc a</s>", []uint32{6, 5, 3, 0, 7}},
		{"first space goes", spm, "a  é", []uint32{5, 6, 7}},
		{"after a special token it stays", spm, "<s> a", []uint32{1, 5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := mustBPE(t, tt.file).Decode(tt.ids); got != tt.want || err != nil {
				t.Errorf("Decode(%v) = %q, %v, want %q", tt.ids, got, err, tt.want)
			}
		})
	}
	if _, err := mustBPE(t, tinyTokenizer).Decode([]uint32{8}); err == nil {
		t.Error("Decode of an unknown id succeeded")
	}
	b := mustBPE(t, strings.Replace(tinyTokenizer, `"decoder": {"type": "ByteLevel"`, `"decoder": {"type": "CTC"`, 1))
	var unsupported *tokenize.UnsupportedError
	if _, err := b.Decode([]uint32{1}); !errors.As(err, &unsupported) {
		t.Errorf("Decode with an unknown decoder = %v, want an UnsupportedError", err)
	}
}

func TestGoldenTextsDecode(t *testing.T) {
	for _, name := range testedModels() {
		if name == "qwen3" {
			continue // qwen3 normalizes
		}
		b := goldenModel(t, name)
		for _, text := range goldenTexts(t) {
			ids, err := b.Append(nil, text.Text)
			if err != nil {
				t.Fatal(err)
			}
			want := text.Text
			if name == "mistral_v3" { // marks and spaces are the same there
				if strings.HasPrefix(want, "▁") || strings.HasPrefix(want, " ") {
					continue // the first space goes
				}
				want = strings.ReplaceAll(want, "▁", " ")
			}
			if got, err := b.Decode(ids); err != nil || got != want {
				t.Errorf("%s, %s: Decode = %.60q, %v, want %.60q", name, text.ID, got, err, want)
			}
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("a sync.Pool drops entries at random under the race detector")
	}
	m := demoModel(t)
	b := m.Tokenizer()
	text := strings.Repeat("The server closes idle connections after 30s.\n<|im_end|> été 中文 ", 40)
	dst := make([]uint32, 0, len(text))
	check := func(name string, f func()) {
		t.Helper()
		f()
		if n := testing.AllocsPerRun(100, f); n >= 1 {
			t.Errorf("%s allocates %v times per run", name, n)
		}
	}
	check("Append", func() { dst, _ = b.Append(dst[:0], text) })
	check("AppendWith", func() { dst, _ = b.AppendWith(dst[:0], text, tokenize.Options{Special: true, MaxTokens: 1 << 20}) })
	check("Count", func() { _, _ = b.Count(text) })
	n := 0
	visit := func(ids []uint32) error { n += len(ids); return nil }
	check("Visit", func() { _ = b.Visit(text, tokenize.Options{}, visit) })
	check("AppendPrompt", func() { dst, _ = m.AppendPrompt(dst[:0], text) })
}

func TestAppendConcurrently(t *testing.T) {
	b := demoModel(t).Tokenizer()
	rng := newRand(5)
	texts := make([]string, 300)
	want := make([][]uint32, len(texts))
	other := demoModel(t).Tokenizer()
	for i := range texts {
		texts[i] = randomText(rng, []string{"The server closes idle connections after 30s."})
		var err error
		if want[i], err = other.Append(nil, texts[i]); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				for i, text := range texts {
					if got, err := b.Append(nil, text); err != nil || !slices.Equal(got, want[i]) {
						t.Errorf("Append(%q) = %v, %v, want %v", text, got, err, want[i])
					}
				}
			}
		})
	}
	wg.Wait()
}

func FuzzAppend(f *testing.F) {
	for _, text := range []string{"The server's 12345 WORDS\r\n\t", "e\u0301\u4e2d\u6587<|im_start|>user\n", strings.Repeat("ab", 60)} {
		f.Add(text)
	}
	m := demoModel(f)
	sentence := mustBPE(f, spm)
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 1<<14 {
			return
		}
		b := m.Tokenizer()
		ids, err := b.Append(nil, text)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := b.Decode(ids); err != nil || back != text {
			t.Errorf("Decode of the ids of %q = %q, %v", text, back, err)
		}
		// Special tokens cut text: what is before one does not depend on
		// what is after it.
		joined, err := b.Append(nil, text+"<|im_end|>"+text)
		if err != nil || !slices.Equal(joined[:len(ids)], ids) || !slices.Equal(joined[len(ids)+1:], ids) {
			t.Errorf("ids of %q change beside a special token: %v, %v", text, joined, err)
		}
		if _, err := sentence.Append(nil, text); err != nil {
			t.Fatal(err)
		}
	})
}
