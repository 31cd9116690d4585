package clients

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/expediterhq/expediter/quota"
)

func chatParams(model string, maxTokens int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:     model,
		MaxTokens: openai.Int(maxTokens),
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("You are brief."),
			openai.UserMessage("What does an expediter do?"),
		},
	}
}

func TestChat(t *testing.T) {
	g := start(t, quota.Limit{})
	c := g.client()
	got, err := c.Chat.Completions.New(t.Context(), chatParams("gpt-fast", 9))
	check(t, err)
	if got.Model != "gpt-fast" || got.Usage.CompletionTokens != 9 || len(got.Choices) != 1 || got.Choices[0].Message.Content == "" || got.Choices[0].FinishReason != "length" {
		t.Errorf("completion = %s", got.RawJSON())
	}
}

func TestChatStream(t *testing.T) {
	g := start(t, quota.Limit{})
	c := g.client()
	for _, usage := range []bool{false, true} {
		p := chatParams("legal", 7)
		if usage {
			p.StreamOptions.IncludeUsage = openai.Bool(true)
		}
		s := c.Chat.Completions.NewStreaming(t.Context(), p)
		var acc openai.ChatCompletionAccumulator
		usages := 0
		for s.Next() {
			chunk := s.Current()
			if chunk.Model != "legal" {
				t.Errorf("chunk of model %q, want legal", chunk.Model)
			}
			if len(chunk.Choices) == 0 {
				usages++
			}
			acc.AddChunk(chunk)
		}
		check(t, s.Err())
		want := 0
		if usage {
			want = 1
			if acc.Usage.CompletionTokens != 7 {
				t.Errorf("usage = %+v, want 7 completion tokens", acc.Usage)
			}
		}
		if usages != want || len(acc.Choices) != 1 || acc.Choices[0].FinishReason != "length" || acc.Choices[0].Message.Content == "" {
			t.Errorf("include_usage %t: %d usage chunks, want %d; answer %+v", usage, usages, want, acc.Choices)
		}
	}
}

func TestCompletions(t *testing.T) {
	g := start(t, quota.Limit{})
	c := g.client()
	p := openai.CompletionNewParams{
		Model:     openai.CompletionNewParamsModel("gpt-fast"),
		MaxTokens: openai.Int(5),
		Prompt:    openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"one", "two"}},
		N:         openai.Int(2),
	}
	got, err := c.Completions.New(t.Context(), p)
	check(t, err)
	if len(got.Choices) != 4 || got.Usage.CompletionTokens != 20 || got.Model != "gpt-fast" {
		t.Errorf("completion = %s", got.RawJSON())
	}
	s := c.Completions.NewStreaming(t.Context(), openai.CompletionNewParams{
		Model: "gpt-fast", MaxTokens: openai.Int(5),
		Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("once")},
	})
	var text strings.Builder
	finish := ""
	for s.Next() {
		for _, choice := range s.Current().Choices {
			text.WriteString(choice.Text)
			finish = or(string(choice.FinishReason), finish)
		}
	}
	check(t, s.Err())
	if text.Len() == 0 || finish != "length" {
		t.Errorf("text %q, finish reason %q", text.String(), finish)
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestModels(t *testing.T) {
	g := start(t, quota.Limit{})
	c := g.client()
	page, err := c.Models.List(t.Context())
	check(t, err)
	var ids []string
	for _, m := range page.Data {
		ids = append(ids, m.ID)
	}
	if strings.Join(ids, " ") != "gpt-fast legal" {
		t.Errorf("models = %v, want gpt-fast and legal", ids)
	}
	m, err := c.Models.Get(t.Context(), "legal")
	check(t, err)
	if m.ID != "legal" {
		t.Errorf("model = %s", m.RawJSON())
	}
}

// TestErrors: each refusal raises the library's error with the right status,
// after as many attempts as make sense.
func TestErrors(t *testing.T) {
	g := start(t, quota.Limit{Windows: []quota.Window{{Name: "minute", Rate: 1, Burst: 200}}})
	for _, tc := range []struct {
		name   string
		client openai.Client
		params openai.ChatCompletionNewParams
		status int
		code   string
		param  string
	}{
		{"wrong key", g.client(option.WithAPIKey("xp-wrong")), chatParams("gpt-fast", 5), 401, "invalid_api_key", ""},
		{"unknown model", g.client(), chatParams("gpt-9", 5), 404, "model_not_found", "model"},
		{"bad field", g.client(), chatParams("gpt-fast", -5), 400, "invalid_value", "max_tokens"},
		{"larger than the quota", g.client(), chatParams("gpt-fast", 5000), 400, "request_exceeds_quota", "max_tokens"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.client.Chat.Completions.New(t.Context(), tc.params)
			var e *openai.Error
			if !errors.As(err, &e) {
				t.Fatalf("error = %v, want the library's own", err)
			}
			if e.StatusCode != tc.status || e.Code != tc.code || e.Param != tc.param || e.Message == "" {
				t.Errorf("error = %d %s, want %d %s %s", e.StatusCode, e.RawJSON(), tc.status, tc.code, tc.param)
			}
		})
	}
	c := g.client(option.WithMaxRetries(0))
	_, err := c.Chat.Completions.New(t.Context(), chatParams("gpt-fast", 120))
	check(t, err)
	_, err = c.Chat.Completions.New(t.Context(), chatParams("gpt-fast", 120))
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 429 || e.Response.Header.Get("Retry-After") == "" {
		t.Errorf("error = %v, want 429 with Retry-After", err)
	}
	if n := len(g.replica.Requests()); n != 1 {
		t.Errorf("the replica got %d requests, want 1", n)
	}
}

// TestCancel: a client that leaves in the middle of a stream stops the
// replica.
func TestCancel(t *testing.T) {
	g := start(t, quota.Limit{})
	c := g.client()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := c.Chat.Completions.NewStreaming(ctx, chatParams("gpt-fast", 20_000))
	for range 5 {
		if !s.Next() {
			t.Fatal(s.Err())
		}
	}
	cancel()
	for s.Next() {
	}
	if !errors.Is(s.Err(), context.Canceled) {
		t.Errorf("stream error = %v, want context canceled", s.Err())
	}
	limit := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if got := g.replica.Requests(); len(got) == 1 && !got[0].Aborted.IsZero() {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("the replica never saw the client leave")
		}
	}
}
