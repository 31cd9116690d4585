package expediter_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/expediterhq/expediter"
)

func TestChatWhole(t *testing.T) {
	h := open(t, option{})
	status, body := h.chat(chatBody(false, 12, "hello there"))
	if status != 200 {
		t.Fatalf("status = %d, body %s", status, body)
	}
	var got struct {
		Model   string
		Choices []struct {
			Message      struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			PromptTokens     int `json:"prompt_tokens"`
			CompletionTokens int `json:"completion_tokens"`
		}
	}
	must(t, json.Unmarshal([]byte(body), &got))
	if got.Model != "gpt-fast" || len(got.Choices) != 1 || got.Choices[0].Message.Content == "" || got.Choices[0].FinishReason != "length" {
		t.Errorf("answer = %s, want one choice of gpt-fast that ended for its length", body)
	}
	if got.Usage.CompletionTokens != 12 {
		t.Errorf("completion_tokens = %d, want 12", got.Usage.CompletionTokens)
	}
	r := h.records.wait(t, 1)[0]
	if r.Status != expediter.StatusOK || r.Output != 12 || r.Input != got.Usage.PromptTokens || r.Attempts != 1 || r.Model != "gpt-fast" || r.Served != servedModel || r.FinishReason != "length" || r.EndedBy != expediter.ByEngine || r.HTTPStatus != 200 {
		t.Errorf("record = %+v, want ok at the first attempt with 12 tokens", r)
	}
	if r.Charged != int64(r.Input+12) || r.Reserved < r.Charged {
		t.Errorf("charged %d of %d reserved, want %d", r.Charged, r.Reserved, r.Input+12)
	}
}

func TestChatStream(t *testing.T) {
	h := open(t, option{})
	resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 5, "hello there"))
	body := readAll(t, resp)
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || !strings.HasPrefix(ct, "text/event-stream") {
		t.Fatalf("status %d, content type %q, body %s", resp.StatusCode, ct, body)
	}
	for name, want := range map[string]string{"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no", "Content-Length": "", "Content-Encoding": ""} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	if got := events[len(events)-1]; got != "data: [DONE]" {
		t.Errorf("last event = %q, want [DONE]", got)
	}
	content := 0
	for _, e := range events[:len(events)-1] {
		var c struct {
			Model   string
			Choices []struct{ Delta struct{ Content string } }
			Usage   *struct{}
		}
		must(t, json.Unmarshal([]byte(strings.TrimPrefix(e, "data: ")), &c))
		if c.Model != "gpt-fast" || c.Usage != nil || len(c.Choices) == 0 {
			t.Errorf("event = %s: want the asked-for model, no usage and a choice", e)
			continue
		}
		if c.Choices[0].Delta.Content != "" {
			content++
		}
	}
	if content != 5 {
		t.Errorf("%d content events, want 5; body %s", content, body)
	}
	r := h.records.wait(t, 1)[0]
	if r.Status != expediter.StatusOK || !r.Stream || r.Output != 5 || r.Estimated || r.TTFT <= 0 || r.TPOT <= 0 {
		t.Errorf("record = %+v, want ok, streamed, with 5 tokens and its times", r)
	}
}
