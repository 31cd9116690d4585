package expediter_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/tenant"
)

// TestRefusals: each kind of bad request gets OpenAI's error shape with a
// message that names the field; nothing is charged and nothing is sent on.
func TestRefusals(t *testing.T) {
	h := open(t, option{
		config: func(c *expediter.Config) {
			c.Limits.Body = 4096
			c.Pools[0].MaxModelLen = 4096
		},
		tenant: func(tn *tenant.Tenant) { tn.Models = []string{"gpt-fast"} },
	})
	good := chatBody(false, 5, "hi")
	for _, tc := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code, param, says        string
	}{
		{"malformed JSON", "POST", "/v1/chat/completions", `{"model":"gpt-fast",`, nil, 400, "invalid_json", "", ""},
		{"two documents", "POST", "/v1/chat/completions", good + good, nil, 400, "invalid_json", "", ""},
		{"duplicate key", "POST", "/v1/chat/completions", `{"model":"gpt-fast","model":"x","messages":[{"role":"user","content":"a"}]}`, nil, 400, "duplicate_key", "model", "model"},
		{"escaped duplicate key", "POST", "/v1/chat/completions", `{"model":"gpt-fast","mod\u0065l":"x","messages":[{"role":"user","content":"a"}]}`, nil, 400, "duplicate_key", "model", "model"},
		{"wrong type", "POST", "/v1/chat/completions", `{"model":"gpt-fast","messages":"hi"}`, nil, 400, "invalid_type", "messages", "messages"},
		{"wrong type of max_tokens", "POST", "/v1/chat/completions", `{"model":"gpt-fast","max_tokens":"many","messages":[{"role":"user","content":"a"}]}`, nil, 400, "invalid_type", "max_tokens", "max_tokens"},
		{"negative max_tokens", "POST", "/v1/chat/completions", `{"model":"gpt-fast","max_tokens":-1000000,"messages":[{"role":"user","content":"a"}]}`, nil, 400, "invalid_value", "max_tokens", "max_tokens"},
		{"huge max_tokens", "POST", "/v1/chat/completions", `{"model":"gpt-fast","max_tokens":9223372036854775807,"messages":[{"role":"user","content":"a"}]}`, nil, 400, "", "max_tokens", "max_tokens"},
		{"n of 17", "POST", "/v1/chat/completions", `{"model":"gpt-fast","n":17,"messages":[{"role":"user","content":"a"}]}`, nil, 400, "", "n", "n"},
		{"no messages", "POST", "/v1/chat/completions", `{"model":"gpt-fast"}`, nil, 400, "missing_required_parameter", "messages", "messages"},
		{"template of the client's", "POST", "/v1/chat/completions", `{"model":"gpt-fast","chat_template":"x","messages":[{"role":"user","content":"a"}]}`, nil, 400, "invalid_value", "chat_template", "chat_template"},
		{"unknown model", "POST", "/v1/chat/completions", `{"model":"gpt-9","messages":[{"role":"user","content":"a"}]}`, nil, 404, "model_not_found", "model", "gpt-9"},
		{"model of another case", "POST", "/v1/chat/completions", `{"model":"GPT-fast","messages":[{"role":"user","content":"a"}]}`, nil, 404, "model_not_found", "model", ""},
		{"model the tenant may not use", "POST", "/v1/chat/completions", `{"model":"acme-8b","messages":[{"role":"user","content":"a"}]}`, nil, 404, "model_not_found", "model", ""},
		{"no model", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}]}`, nil, 400, "missing_required_parameter", "model", "model"},
		{"missing key", "POST", "/v1/chat/completions", good, []string{"Authorization", ""}, 401, "invalid_api_key", "", "Authorization"},
		{"wrong key", "POST", "/v1/chat/completions", good, []string{"Authorization", "Bearer xp-nonsense"}, 401, "invalid_api_key", "", "Authorization"},
		{"oversized body", "POST", "/v1/chat/completions", chatBody(false, 5, strings.Repeat("x", 5000)), nil, 413, "request_too_large", "", "4096"},
		{"wrong content type", "POST", "/v1/chat/completions", good, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type", "Content-Type", "Content-Type"},
		{"compressed body", "POST", "/v1/chat/completions", good, []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type", "Content-Encoding", "Content-Encoding"},
		{"wrong method", "GET", "/v1/chat/completions", "", nil, 405, "method_not_allowed", "", "POST"},
		{"unknown path", "POST", "/v1/embeddings", good, nil, 404, "unknown_url", "", ""},
		{"encoded path", "POST", "/v1/chat%2fcompletions", good, nil, 404, "unknown_url", "", ""},
		{"encoded path to a model", "GET", "/v1%2fmodels/gpt-fast", "", nil, 404, "unknown_url", "", ""},
		{"output too long beside the prompt", "POST", "/v1/completions", `{"model":"gpt-fast","max_tokens":4000,"prompt":[` + strings.Repeat("1,", 199) + `1]}`, nil, 400, "context_length_exceeded", "max_tokens", "4096"},
		{"a list", "POST", "/v1/chat/completions", `[]`, nil, 400, "invalid_json", "", "not a valid JSON object: expected an object"},
		{"no prompt", "POST", "/v1/completions", `{"model":"gpt-fast"}`, nil, 400, "missing_required_parameter", "prompt", "prompt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := http.NewRequest(tc.method, h.url+tc.path, strings.NewReader(tc.body))
			must(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+h.key)
			for i := 0; i+1 < len(tc.headers); i += 2 {
				r.Header.Set(tc.headers[i], tc.headers[i+1])
			}
			resp, err := h.client.Do(r)
			must(t, err)
			body := readAll(t, resp)
			checkError(t, resp, body, tc.status, tc.code, tc.param, tc.says)
		})
	}
	if b, _ := h.quota.Balance(context.Background(), "acme"); b.Charged != 0 || b.Running != 0 || b.Reserved != 0 {
		t.Errorf("after refusals: balance = %+v, want nothing charged, reserved or running", b)
	}
	if n := len(h.replicas[0].Requests()); n != 0 {
		t.Errorf("the replica got %d requests, want 0", n)
	}
}

func checkError(t *testing.T, resp *http.Response, body string, status int, code, param, says string) {
	t.Helper()
	if resp.StatusCode != status {
		t.Errorf("status = %d, want %d; body %s", resp.StatusCode, status, body)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type = %q, want application/json", ct)
	}
	var e struct {
		Error struct {
			Message, Type string
			Code, Param   *string
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Message == "" || e.Error.Type == "" {
		t.Fatalf("body = %s, want an error in OpenAI's shape", body)
	}
	if code != "" && (e.Error.Code == nil || *e.Error.Code != code) {
		t.Errorf("code in %s, want %q", body, code)
	}
	if param != "" && (e.Error.Param == nil || *e.Error.Param != param) {
		t.Errorf("param in %s, want %q", body, param)
	}
	if !strings.Contains(e.Error.Message, says) {
		t.Errorf("message = %q, want one that says %q", e.Error.Message, says)
	}
}

// TestChunkedBodyTooLarge: the limit holds without a Content-Length too.
func TestChunkedBodyTooLarge(t *testing.T) {
	h := open(t, option{config: func(c *expediter.Config) { c.Limits.Body = 10_000 }})
	r, err := http.NewRequest("POST", h.url+"/v1/chat/completions", io.MultiReader(strings.NewReader(`{"model":"`), &endless{}))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+h.key)
	resp, err := h.client.Do(r)
	must(t, err)
	checkError(t, resp, readAll(t, resp), 413, "request_too_large", "", "10000")
}

// endless never ends, but gives up soon after nobody could want more.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	if e.n > 1<<24 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'x'
	}
	e.n += len(p)
	return len(p), nil
}

func TestQuotaRefusals(t *testing.T) {
	h := open(t, option{tenant: func(tn *tenant.Tenant) {
		tn.Limit = quota.Limit{Windows: []quota.Window{{Name: "minute", Rate: 10, Burst: 300}}}
	}})
	resp := h.post(t.Context(), "/v1/chat/completions", chatBody(false, 5000, "hi"))
	checkError(t, resp, readAll(t, resp), 400, "request_exceeds_quota", "max_tokens", "300")
	if got := resp.Header.Get("X-Should-Retry"); got != "false" {
		t.Errorf("X-Should-Retry = %q, want false", got)
	}
	resp = h.post(t.Context(), "/v1/chat/completions", chatBody(false, 5, strings.Repeat("many words ", 200)))
	checkError(t, resp, readAll(t, resp), 400, "request_exceeds_quota", "messages", "300")
	if status, body := h.chat(chatBody(false, 200, "hi")); status != 200 {
		t.Fatalf("status %d, body %s", status, body)
	}
	resp = h.post(t.Context(), "/v1/chat/completions", chatBody(false, 250, "hi"))
	checkError(t, resp, readAll(t, resp), 429, "rate_limit_exceeded", "", "300")
	if got := resp.Header.Get("Retry-After"); got == "" || got == "0" {
		t.Errorf("Retry-After = %q, want a positive number of seconds", got)
	}
	for i, r := range h.records.wait(t, 4) {
		if refused := i != 2; (r.Status == expediter.StatusRefused) != refused || refused && r.Charged != 0 {
			t.Errorf("record %d = %+v, want all but the third refused, without a charge", i, r)
		}
	}
}
