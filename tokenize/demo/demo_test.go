package demo_test

import (
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/demo"
)

func TestFilesLoad(t *testing.T) {
	m, err := tokenize.Load(demo.Files)
	if err != nil {
		t.Fatal(err)
	}
	const text = "The server closes the connection when the request's context is done.\n"
	ids, err := m.Tokenizer().Append(nil, strings.Repeat(text, 10))
	if err != nil {
		t.Fatal(err)
	}
	// English prose must come out at clearly fewer tokens than a quarter of
	// its bytes, or the tokenizer is not trained.
	if n := len(text) * 10; len(ids) > n/4 {
		t.Errorf("%d bytes of English became %d tokens", n, len(ids))
	}
	if back, err := m.Tokenizer().Decode(ids); err != nil || back != strings.Repeat(text, 10) {
		t.Errorf("Decode = %.40q, %v", back, err)
	}
	if m.EOS() != "<|im_end|>" || m.BOS() != "" {
		t.Errorf("EOS = %q, BOS = %q", m.EOS(), m.BOS())
	}
}

func TestSpecialTokensAreOneToken(t *testing.T) {
	m, err := tokenize.Load(demo.Files)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		ids, err := m.Tokenizer().Append(nil, token)
		id, ok := m.Tokenizer().TokenID(token)
		if err != nil || !ok || len(ids) != 1 || ids[0] != id {
			t.Errorf("Append(%q) = %v, %v, want its id %d", token, ids, err, id)
		}
	}
}
