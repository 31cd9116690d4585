package openai_test

import (
	"testing"

	"github.com/expediterhq/expediter/internal/openai"
)

func TestParseAndRewriteSmoke(t *testing.T) {
	body := []byte(` { "model" : "a", "messages":[{"role":"user","content":"hi \u00e9 é"}], "stream":true ,"max_tokens":5 } `)
	r, err := openai.Parse(body, openai.Chat, openai.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := string(r.Rewrite(nil, openai.Edits{Model: "b", MaxTokens: 7, IncludeUsage: true, Drop: []string{"messages"}, Set: []openai.Setting{openai.Int("priority", 3)}}))
	want := ` { "model" : "b", "stream":true ,"max_tokens":7,"priority":3,"stream_options":{"include_usage":true} } `
	if got != want {
		t.Errorf("Rewrite =\n%s, want\n%s", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = openai.Parse(body, openai.Chat, openai.Limits{}) }); n > 3 {
		t.Errorf("Parse allocates %v times, want at most 3", n)
	}
}
