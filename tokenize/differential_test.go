package tokenize_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// agree compares the tokenizer with the reference on one text, through each of
// its forms, twice because the second time caches answer.
func agree(t *testing.T, b *tokenize.BPE, r *reference, text string) {
	t.Helper()
	want := r.encode(text)
	for range 2 {
		got, err := b.Append(nil, text)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("Append(%+q) = %v, %v, want %v", text, got, err, want)
		}
	}
	var visited []uint32
	err := b.Visit(text, tokenize.Options{}, func(ids []uint32) error {
		visited = append(visited, ids...)
		return nil
	})
	if n, countErr := b.Count(text); err != nil || countErr != nil || !slices.Equal(visited, want) || n != len(want) {
		t.Fatalf("Visit(%+q) = %v, %v, Count = %d, %v, want %v", text, visited, err, n, countErr, want)
	}
}

// rounds scales down the number of random texts for short runs, and for those
// with the race detector, which multiplies their time by ten.
func rounds(n int) int {
	if testing.Short() || raceEnabled {
		return n / 20
	}
	return n
}

func TestGoldenModelsAgreeWithTheReference(t *testing.T) {
	dir := goldenDir(t)
	var samples []string
	for _, text := range goldenTexts(t) {
		if len(text.Text) < 5000 {
			samples = append(samples, text.Text)
		}
	}
	slices.Sort(samples)
	for i, name := range testedModels() {
		t.Run(name, func(t *testing.T) {
			b := goldenModel(t, name)
			r := newReference(t, readGzip(t, filepath.Join(dir, "tokenizers", name, "tokenizer.json.gz")))
			rng := newRand(uint64(i))
			for range rounds(8000) {
				text := randomText(rng, samples)
				if rng.IntN(4) == 0 {
					text += r.Added[rng.IntN(len(r.Added))].Content + randomText(rng, samples)
				}
				agree(t, b, r, text)
			}
		})
	}
}

func TestDemoAgreesWithTheReference(t *testing.T) {
	packed, err := demo.Files.ReadFile("tokenizer.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	m := demoModel(t)
	r := newReference(t, unzip(t, packed))
	rng := newRand(11)
	samples := []string{"The server closes idle connections after 30s.\n\tfunc (s *Server) Close() error {", "<|im_start|>user\n"}
	for range rounds(40_000) {
		agree(t, m.Tokenizer(), r, randomText(rng, samples))
	}
}

// randomModel draws a small model, of which every part that encoding depends
// on may be one way or the other. Merges are in no sensible order, so that a
// merge can make a pair of lower rank than its own.
func randomModel(rng *rand.Rand) map[string]any {
	bytes := rng.IntN(2) == 0
	letters := []string{"a", "b", "c", "é", "▁", "\n", "-", "中"}
	if bytes {
		letters = []string{"a", "b", "c", "Ã", "©", "Ġ", "Ċ", "-"}
	}
	vocab := map[string]int{}
	add := func(token string) {
		if _, ok := vocab[token]; !ok {
			vocab[token] = len(vocab)
		}
	}
	for i, l := range letters {
		if i < 3 || rng.IntN(5) > 0 {
			add(l)
		}
	}
	model := map[string]any{"type": "BPE", "ignore_merges": rng.IntN(4) == 0, "vocab": vocab}
	tokens := slices.Sorted(func(yield func(string) bool) {
		for token := range vocab {
			if !yield(token) {
				return
			}
		}
	})
	switch n := rng.IntN(4); {
	case bytes && n > 1, !bytes && n == 0:
		add("<unk>")
		model["unk_token"], model["fuse_unk"] = "<unk>", rng.IntN(2) == 0
	case !bytes && n < 3:
		for b := range 256 {
			add(fmt.Sprintf("<0x%02X>", b))
		}
		model["byte_fallback"] = true
	}
	var merges [][2]string
	for range rng.IntN(40) {
		l, r := tokens[rng.IntN(len(tokens))], tokens[rng.IntN(len(tokens))]
		if len(l)+len(r) > 24 {
			continue
		}
		add(l + r)
		tokens = append(tokens, l+r)
		merges = append(merges, [2]string{l, r})
	}
	rng.Shuffle(len(merges), func(i, j int) { merges[i], merges[j] = merges[j], merges[i] })
	model["merges"] = merges
	if merges == nil {
		model["merges"] = [][2]string{}
	}
	file := map[string]any{"model": model, "pre_tokenizer": randomPre(rng, bytes), "added_tokens": randomAdded(rng, len(vocab))}
	if !bytes {
		file["normalizer"] = []any{
			nil,
			map[string]any{"type": "NFC"},
			map[string]any{"type": "Replace", "pattern": map[string]string{"String": " "}, "content": "▁"},
			map[string]any{"type": "Sequence", "normalizers": []any{
				map[string]any{"type": "Prepend", "prepend": "▁"},
				map[string]any{"type": "Replace", "pattern": map[string]string{"String": " "}, "content": "▁"},
			}},
		}[rng.IntN(4)]
	}
	return file
}

func randomPre(rng *rand.Rand, bytes bool) any {
	regex := func(src string) any {
		return map[string]any{"type": "Split", "pattern": map[string]string{"Regex": src}, "behavior": "Isolated"}
	}
	if bytes {
		level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": rng.IntN(2) == 0}
		return []any{
			level,
			map[string]any{"type": "Sequence", "pretokenizers": []any{map[string]any{"type": "Digits", "individual_digits": rng.IntN(2) == 0}, level}},
			map[string]any{"type": "Sequence", "pretokenizers": []any{regex(`[ab]+c?|\s+`), regex(`b+`), level}},
		}[rng.IntN(3)]
	}
	return []any{
		nil,
		map[string]any{
			"type": "Metaspace", "replacement": "▁", "split": rng.IntN(2) == 0,
			"prepend_scheme": []string{"always", "first", "never"}[rng.IntN(3)],
		},
		regex(`\n+`),
	}[rng.IntN(3)]
}

func randomAdded(rng *rand.Rand, next int) []map[string]any {
	var added []map[string]any
	for _, content := range []string{"<s>", "<s>a", "ab ", "é", "e\u0301"} {
		if rng.IntN(2) == 0 {
			added = append(added, map[string]any{"id": next, "content": content, "special": true, "normalized": rng.IntN(3) == 0})
			next++
		}
	}
	return added
}

func TestRandomModelsAgreeWithTheReference(t *testing.T) {
	rng := newRand(21)
	pieces := []string{"a", "b", "c", "aa", "abc", "é", "e\u0301", " ", "  ", "▁", "\n", "-", "中", "x", "xy", "<s>", "<s>a", "<0x41>", "1", "23"}
	loaded := 0
	for n := range rounds(2500) {
		file, err := json.Marshal(randomModel(rng))
		if err != nil {
			t.Fatal(err)
		}
		b, err := tokenize.NewBPE(file)
		if err != nil {
			// An added token may be in the vocabulary, at another id.
			if strings.Contains(err.Error(), "added_tokens") {
				continue
			}
			t.Fatalf("model %d: NewBPE(%s): %v", n, file, err)
		}
		loaded++
		r := newReference(t, file)
		for range 24 {
			var text strings.Builder
			for range rng.IntN(12) {
				text.WriteString(strings.Repeat(pieces[rng.IntN(len(pieces))], 1+rng.IntN(1+rng.IntN(30))))
			}
			agree(t, b, r, text.String())
			if t.Failed() {
				t.Fatalf("model %d: %s", n, file)
			}
		}
	}
	if loaded < rounds(1500) {
		t.Errorf("only %d models loaded", loaded)
	}
}
