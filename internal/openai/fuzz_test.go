package openai_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/expediterhq/expediter/internal/openai"
)

func newReader(b []byte) io.Reader { return bytes.NewReader(b) }

// FuzzParse compares with encoding/json where the two agree on purpose: what
// Parse accepts must be valid JSON with the same fields, and valid JSON that
// Parse calls invalid must be one of the things it is stricter about.
func FuzzParse(f *testing.F) {
	for _, b := range hostile(rand.New(rand.NewPCG(5, 6)), 300) {
		f.Add(b, false)
	}
	f.Add([]byte(`{"prompt":[[1,2],[3]],"max_tokens":"5","stop":["a"],"echo":true}`), true)
	f.Add([]byte(`{"prompt":"a","stream":true,"stream_options":{"include_usage":false}}`), true)
	f.Fuzz(func(t *testing.T, body []byte, completion bool) {
		kind := openai.Chat
		if completion {
			kind = openai.Completion
		}
		r, err := openai.Parse(body, kind, openai.Limits{})
		if err != nil {
			e := err.(*openai.Error)
			if e.Code == openai.CodeInvalidJSON && json.Valid(body) && bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) &&
				utf8.Valid(body) && !strings.Contains(e.Message, "surrogate") {
				t.Fatalf("Parse(%q) = %v, but it is valid JSON", body, err)
			}
			return
		}
		if !json.Valid(body) || !utf8.Valid(body) {
			t.Fatalf("Parse(%q) accepted what is not JSON", body)
		}
		checkFields(t, r)
		e := openai.Edits{Model: "served", MaxTokens: 3, IncludeUsage: true, ContinuousUsage: true, Drop: []string{"user"}}
		out := r.Rewrite(nil, e)
		again, err := openai.Parse(out, kind, openai.Limits{Keys: 5000})
		if err != nil {
			t.Fatalf("Rewrite(%q) = %q: %v", body, out, err)
		}
		_, user := again.Field("user")
		if again.Model != "served" || again.MaxTokens != 3 || user || again.Stream != r.Stream || again.IncludeUsage != (r.Stream || r.IncludeUsage) {
			t.Fatalf("Rewrite(%q) = %q", body, out)
		}
		if third := again.Rewrite(nil, e); !bytes.Equal(third, out) {
			t.Fatalf("Rewrite(%q) = %q, and again %q", body, out, third)
		}
	})
}

// checkFields compares the top-level fields with the decoded object.
func checkFields(t *testing.T, r *openai.Request) {
	var want map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &want); err != nil {
		t.Fatalf("%q: %v", r.Body, err)
	}
	if len(want) != len(r.Fields) {
		t.Fatalf("%q: %d fields, want %d", r.Body, len(r.Fields), len(want))
	}
	for _, f := range r.Fields {
		if !bytes.Equal(want[f.Name], f.Value) {
			t.Fatalf("%q: field %q = %q, want %q", r.Body, f.Name, f.Value, want[f.Name])
		}
	}
	var model string
	if json.Unmarshal(want["model"], &model) == nil && model != r.Model {
		t.Fatalf("%q: model %q, want %q", r.Body, r.Model, model)
	}
}
