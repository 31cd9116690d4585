package vllm

import (
	"encoding/json"
	"slices"
	"testing"
)

// FuzzAnswerIDs: whatever a replica answers, its ids are those in the JSON or
// none.
func FuzzAnswerIDs(f *testing.F) {
	for _, s := range []string{
		`{"count":2,"tokens":[1,2],"token_strs":null}`, `{"token_ids":[]}`, `{"token_ids":null}`, `[[],[{"prompt_token_ids":[4294967295]}]]`,
		`[[],[{}]]`, `[[],[]]`, `{"tokens":[4294967296]}`, `{"tokens":[1.0]}`, ``, `[`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, read := range map[string]func([]byte) ([]uint32, error){"tokenized": tokenized, "rendered": rendered} {
			ids, err := read(body)
			if (err == nil) != (ids != nil) {
				t.Fatalf("%s(%q) = %v, %v: want ids or an error", name, body, ids, err)
			}
			if err != nil {
				continue
			}
			again, err := json.Marshal(map[string]any{"tokens": ids, "token_ids": ids})
			if err != nil {
				t.Fatal(err)
			}
			if back, err := read(again); err != nil || !slices.Equal(back, ids) {
				t.Errorf("%s: %v came back as %v, %v", name, ids, back, err)
			}
		}
	})
}
