package tokenize

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestLeast refuses texts by their bytes exactly where it is right to: no text
// is said to have more tokens than it has.
func TestLeast(t *testing.T) {
	file := func(parts string) string {
		space := "▁"
		if strings.Contains(parts, "ByteLevel") {
			space = "Ġ"
		}
		return strings.ReplaceAll(`{`+parts+`"added_tokens": [{"id": 13, "content": "<end>", "special": true, "normalized": false}],
			"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "é": 3, "aa": 4, "aaaa": 5, "ab": 6, "SPACE": 7, "SPACEa": 8, "-": 9, "Ã": 10, "©": 11, "Ã©": 12},
			"merges": ["a a", "aa aa", "a b", "SPACE a", "Ã ©"]}}`, "SPACE", space)
	}
	models := map[string]string{
		"byte-level":       file(`"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},`),
		"byte-level, NFC":  file(`"normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},`),
		"marks":            file(`"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},`),
		"metaspace":        file(`"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},`),
		"marks of letters": file(`"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "ab"},`),
		"replaced letters": file(`"normalizer": {"type": "Replace", "pattern": {"String": "aa"}, "content": "b"},`),
	}
	pieces := []string{"a", "b", "c", "x", " ", "é", "e\u0301", "a\u0301", "<end>", "aaaa", "\u212b", "中"}
	for name, src := range models {
		t.Run(name, func(t *testing.T) {
			b, err := NewBPE([]byte(src))
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			refused := 0
			for range 5000 {
				var text strings.Builder
				for range rng.IntN(6) {
					text.WriteString(strings.Repeat(pieces[rng.IntN(len(pieces))], 1+rng.IntN(12)))
				}
				n, err := b.Count(text.String())
				if err != nil {
					t.Fatal(err)
				}
				if b.least.exceeds(text.String(), n) {
					t.Fatalf("%q is refused as more than %d tokens, which it has", text.String(), n)
				}
				if _, err := b.AppendWith(nil, text.String(), Options{MaxTokens: max(n, 1)}); err != nil {
					t.Fatalf("%q of %d tokens: %v", text.String(), n, err)
				}
				if b.least.exceeds(text.String(), n/4) {
					refused++
				}
			}
			if knows := name != "replaced letters"; (refused > 0) != knows {
				t.Errorf("refused %d texts of far too many tokens", refused)
			}
		})
	}
}
