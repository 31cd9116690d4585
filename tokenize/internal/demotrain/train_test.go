package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/expediterhq/expediter/tokenize"
)

func TestTrain(t *testing.T) {
	m := train(map[string]int{"aab": 4, "ab": 3, "cab": 2, "rare": 1}, 300)
	var got []string
	for _, p := range m.merges {
		got = append(got, m.tokens[p.left]+"+"+m.tokens[p.right])
	}
	// ab occurs 9 times, then a+ab 4 times, then c+ab twice; what occurs once
	// is not worth a token.
	if want := []string{"a+b", "a+ab", "c+ab"}; !slices.Equal(got, want) {
		t.Errorf("merges = %q, want %q", got, want)
	}
}

func TestTrainStopsAtSize(t *testing.T) {
	if m := train(map[string]int{"abcdefgh": 9}, 258); len(m.tokens) != 258 || len(m.merges) != 2 {
		t.Errorf("%d tokens and %d merges, want 258 and 2", len(m.tokens), len(m.merges))
	}
}

func TestFileIsATokenizer(t *testing.T) {
	words := map[string]int{" the": 5, "the": 3, " then": 2, "été": 4, "\n\n": 2}
	m := train(words, 280)
	file, err := json.Marshal(m.file())
	if err != nil {
		t.Fatal(err)
	}
	b, err := tokenize.NewBPE(file)
	if err != nil {
		t.Fatal(err)
	}
	// A word that became a token in training is one token.
	for _, word := range []string{" the", "the", "été", "\n\n"} {
		ids, err := b.Append(nil, word)
		if err != nil || len(ids) != 1 || m.tokens[ids[0]] != word {
			t.Errorf("Append(%q) = %v, %v, want its own token", word, ids, err)
		}
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	text := string(bytes.ToValidUTF8(all, nil)) + "été<|im_end|>"
	ids, err := b.Append(nil, text)
	if back, decodeErr := b.Decode(ids); err != nil || decodeErr != nil || back != text {
		t.Errorf("Decode = %q, %v, %v, want %q", back, err, decodeErr, text)
	}
}
