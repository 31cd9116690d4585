package openai_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/expediterhq/expediter/internal/openai"
)

func TestRewrite(t *testing.T) {
	usage := openai.Edits{IncludeUsage: true, ContinuousUsage: true}
	for _, c := range []struct {
		name, body string
		edits      openai.Edits
		want       string
	}{
		{"nothing", ` {"messages":[{"role":"u"}] , "x" : 1e2 } ` + "\n", openai.Edits{}, ` {"messages":[{"role":"u"}] , "x" : 1e2 } ` + "\n"},
		{"same model", `{"m\u006fdel":"a","messages":[{"role":"u"}]}`, openai.Edits{Model: "a"}, `{"m\u006fdel":"a","messages":[{"role":"u"}]}`},
		{"model", `{"m\u006fdel" : "a" ,"messages":[{"role":"u"}]}`, openai.Edits{Model: `b"é`}, `{"m\u006fdel" : "b\"é" ,"messages":[{"role":"u"}]}`},
		{"model absent", `{"messages":[{"role":"u"}]}`, openai.Edits{Model: "b"}, `{"messages":[{"role":"u"}],"model":"b"}`},
		{"model null", `{"model":null,"messages":[{"role":"u"}]}`, openai.Edits{Model: "b"}, `{"model":"b","messages":[{"role":"u"}]}`},
		{"limit absent", `{"messages":[{"role":"u"}]}`, openai.Edits{MaxTokens: 7}, `{"messages":[{"role":"u"}],"max_tokens":7}`},
		{"limit absent, field given", `{"messages":[{"role":"u"}]}`, openai.Edits{MaxTokens: 7, MaxField: "max_completion_tokens"}, `{"messages":[{"role":"u"}],"max_completion_tokens":7}`},
		{"limit null", `{"max_tokens":null,"messages":[{"role":"u"}]}`, openai.Edits{MaxTokens: 7}, `{"max_tokens":7,"messages":[{"role":"u"}]}`},
		{"limit text", `{"max_tokens":" 9 ","messages":[{"role":"u"}]}`, openai.Edits{MaxTokens: 7}, `{"max_tokens":7,"messages":[{"role":"u"}]}`},
		{"limit same", `{"max_tokens":7.0,"messages":[{"role":"u"}]}`, openai.Edits{MaxTokens: 7}, `{"max_tokens":7.0,"messages":[{"role":"u"}]}`},
		{"both limits", `{"max_tokens":100, "messages":[{"role":"u"}],"max_completion_tokens":50}`, openai.Edits{MaxTokens: 7}, `{"messages":[{"role":"u"}],"max_completion_tokens":7}`},
		{"usage absent", `{"stream":true,"messages":[{"role":"u"}]}`, usage, `{"stream":true,"messages":[{"role":"u"}],"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
		{"usage without stream", `{"messages":[{"role":"u"}]}`, usage, `{"messages":[{"role":"u"}]}`},
		{"usage null", `{"stream_options" :null,"stream":true,"messages":[{"role":"u"}]}`, usage, `{"stream_options" :{"include_usage":true,"continuous_usage_stats":true},"stream":true,"messages":[{"role":"u"}]}`},
		{"usage empty", `{"stream_options":{ },"stream":true,"messages":[{"role":"u"}]}`, usage, `{"stream_options":{ "include_usage":true,"continuous_usage_stats":true},"stream":true,"messages":[{"role":"u"}]}`},
		{"usage false", `{"stream_options":{ "x" :1,"include_usage" : false },"stream":true,"messages":[{"role":"u"}]}`, usage, `{"stream_options":{ "x" :1,"include_usage" : true ,"continuous_usage_stats":true},"stream":true,"messages":[{"role":"u"}]}`},
		{"usage other order", `{"stream_options":{"continuous_usage_stats":null,"include_usage":0},"stream":true,"messages":[{"role":"u"}]}`, usage, `{"stream_options":{"continuous_usage_stats":true,"include_usage":true},"stream":true,"messages":[{"role":"u"}]}`},
		{"usage there", `{"stream_options":{"include_usage":1},"stream":true,"messages":[{"role":"u"}]}`, openai.Edits{IncludeUsage: true}, `{"stream_options":{"include_usage":1},"stream":true,"messages":[{"role":"u"}]}`},
		{"drop first", `{ "a":1 , "messages":[{"role":"u"}]}`, openai.Edits{Drop: []string{"a"}}, `{ "messages":[{"role":"u"}]}`},
		{"drop last", `{"messages":[{"role":"u"}] , "\u0061": {"b":","} }`, openai.Edits{Drop: []string{"a", "c"}}, `{"messages":[{"role":"u"}] }`},
		{"drop all", `{ "messages":[{"role":"u"}]}`, openai.Edits{Drop: []string{"messages"}}, `{}`},
		{"drop all and set", `{ "messages":[{"role":"u"}]}`, openai.Edits{Drop: []string{"messages"}, Model: "b"}, `{"model":"b"}`},
		{"set", `{"priority":5,"messages":[{"role":"u"}]}`, openai.Edits{Set: []openai.Setting{openai.String("priority", "low"), openai.String("cache_salt", "t\n1")}, Drop: []string{"priority"}}, `{"priority":"low","messages":[{"role":"u"}],"cache_salt":"t\n1"}`},
		{"set same", `{"cache_salt":"t","messages":[{"role":"u"}]}`, openai.Edits{Set: []openai.Setting{openai.String("cache_salt", "t")}}, `{"cache_salt":"t","messages":[{"role":"u"}]}`},
		{"empty name", `{"":1,"messages":[{"role":"u"}]}`, openai.Edits{Model: "b"}, `{"":1,"messages":[{"role":"u"}],"model":"b"}`},
	} {
		r := accept(t, []byte(c.body), openai.Chat)
		if got := string(r.Rewrite(nil, c.edits)); got != c.want {
			t.Errorf("%s: Rewrite =\n%s, want\n%s", c.name, got, c.want)
		}
		if got := string(r.Rewrite([]byte("x"), c.edits)); got != "x"+c.want {
			t.Errorf("%s: Rewrite into a buffer =\n%s, want\n%s", c.name, got, c.want)
		}
	}
	r := accept(t, []byte(`{"prompt":"p","max_completion_tokens":3}`), openai.Completion)
	if got, want := string(r.Rewrite(nil, openai.Edits{MaxTokens: 16})), `{"prompt":"p","max_completion_tokens":3,"max_tokens":16}`; got != want {
		t.Errorf("completion: Rewrite = %s, want %s", got, want)
	}
}

// TestRewriteAgainstDecoding edits random bodies and compares with the same
// edits on the decoded document.
func TestRewriteAgainstDecoding(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	checked := 0
	for _, body := range hostile(rnd, 6000) {
		r, err := openai.Parse(body, openai.Chat, openai.Limits{})
		if err != nil {
			continue
		}
		checked++
		var e openai.Edits
		want := decode(t, body)
		if rnd.IntN(2) == 0 {
			e.Model = "served"
			want["model"] = "served"
		}
		if rnd.IntN(2) == 0 {
			e.MaxTokens = 1 + rnd.IntN(9)
			field := r.MaxField
			if field == "" {
				field = "max_tokens"
			}
			delete(want, "max_tokens")
			delete(want, "max_completion_tokens")
			want[field] = json.Number("7")
			e.MaxTokens = 7
		}
		if rnd.IntN(2) == 0 {
			e.Drop = []string{"x", "metadata", "model "}
			for _, name := range e.Drop {
				delete(want, name)
			}
		}
		out := r.Rewrite(nil, e)
		again, err := openai.Parse(out, openai.Chat, openai.Limits{})
		if err != nil {
			t.Fatalf("Rewrite(%q) = %q: %v", body, out, err)
		}
		if again.Stream != r.Stream || again.N != r.N || string(again.Messages) != string(r.Messages) || e.MaxTokens > 0 && again.MaxTokens != 7 {
			t.Fatalf("Rewrite(%q) = %q: reads %+v", body, out, again)
		}
		got := decode(t, out)
		if again.MaxTokens == 7 && e.MaxTokens > 0 { // may have been there in another spelling
			got[again.MaxField] = json.Number("7")
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("Rewrite(%q, %+v) = %q, want %v", body, e, out, want)
		}
	}
	if checked < 500 {
		t.Errorf("only %d bodies were edited", checked)
	}
}

func decode(t *testing.T, body []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(newReader(body))
	dec.UseNumber()
	v := map[string]any{}
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decoding %q: %v", body, err)
	}
	return v
}
