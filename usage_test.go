package expediter_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/expediterhq/expediter"
)

// runningUsage is a content chunk with the usage so far.
func runningUsage(n int) string {
	return fmt.Sprintf(`{"id":"x","object":"chat.completion.chunk","model":"acme-8b","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"usage":{"prompt_tokens":7,"total_tokens":%d,"completion_tokens":%d}}`, 7+n, n)
}

// TestUsageShown: the engine is always asked for usage; the
// client sees exactly what it asked for, as the engine wrote it.
func TestUsageShown(t *testing.T) {
	script := events(roleChunk, runningUsage(1), runningUsage(2), finishChunk, usageChunk, "[DONE]")
	h := open(t, option{front: script.front})
	plain := strings.Replace(runningUsage(1), `,"usage":{"prompt_tokens":7,"total_tokens":8,"completion_tokens":1}`, "", 1)
	for _, tc := range []struct {
		name, options string
		running, last bool
	}{
		{"not asked for", ``, false, false},
		{"empty options", `,"stream_options":{}`, false, false},
		{"null options", `,"stream_options":null`, false, false},
		{"refused", `,"stream_options":{"include_usage":false}`, false, false},
		{"asked for", `,"stream_options":{"include_usage":true}`, false, true},
		{"asked for with every event", `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := len(script.requests())
			status, body := h.chat(`{"model":"gpt-fast","stream":true,"messages":[{"role":"user","content":"hi"}]` + tc.options + `}`)
			if status != 200 {
				t.Fatalf("status %d: %s", status, body)
			}
			want := "data: " + roleChunk + "\n\n"
			if tc.running {
				want += "data: " + runningUsage(1) + "\n\ndata: " + runningUsage(2) + "\n\n"
			} else {
				want += "data: " + plain + "\n\ndata: " + plain + "\n\n"
			}
			want += "data: " + finishChunk + "\n\n"
			if tc.last {
				want += "data: " + usageChunk + "\n\n"
			}
			want = strings.ReplaceAll(want, "acme-8b", "gpt-fast") + "data: [DONE]\n\n"
			if body != want {
				t.Errorf("stream =\n%s\nwant\n%s", body, want)
			}
			sent := script.requests()[n].body
			if strings.Count(sent, `"include_usage":true`) != 1 || strings.Count(sent, `"continuous_usage_stats":true`) != 1 || strings.Count(sent, "stream_options") != 1 {
				t.Errorf("the replica was sent %s", sent)
			}
			r := h.records.wait(t, n+1)[n]
			if r.Output != 2 || r.Input != 7 || r.Charged != 9 || r.Estimated {
				t.Errorf("record = %+v, want 7 and 2 tokens, exact", r)
			}
		})
	}
}

// TestOwnNamePassesBytes: where nothing has to change, the client gets the
// engine's bytes.
func TestOwnNamePassesBytes(t *testing.T) {
	list := []string{roleChunk, contentChunk, finishChunk, usageChunk}
	script := events(append(list, "[DONE]")...)
	h := open(t, option{front: script.front})
	body := strings.NewReplacer("gpt-fast", servedModel, `"max_tokens":5`, `"max_tokens":5,"stream_options":{"include_usage":true}`).Replace(chatBody(true, 5, "hi"))
	_, got := h.chat(body)
	if want := "data: " + strings.Join(append(list, "[DONE]"), "\n\ndata: ") + "\n\n"; got != want {
		t.Errorf("stream =\n%s\nwant\n%s", got, want)
	}
}

// TestStreamOptionsWithoutStream: nothing is injected into a request that
// is not streamed; the client's own mistake comes back as the engine's 400.
func TestStreamOptionsWithoutStream(t *testing.T) {
	script := whole(wholeAnswer)
	h := open(t, option{front: script.front})
	for _, stream := range []string{``, `,"stream":false`, `,"stream":null`} {
		n := len(script.requests())
		if status, body := h.chat(`{"model":"gpt-fast","messages":[{"role":"user","content":"hi"}]` + stream + `}`); status != 200 {
			t.Errorf("status %d: %s", status, body)
		}
		if sent := script.requests()[n].body; strings.Contains(sent, "stream_options") {
			t.Errorf("the replica was sent %s", sent)
		}
	}
}

// TestUsageNotBelieved: a replica that claims absurd usage does not empty the
// tenant's quota.
func TestUsageNotBelieved(t *testing.T) {
	claim := `{"choices":[],"usage":{"prompt_tokens":2000000000,"completion_tokens":2000000000,"prompt_tokens_details":{"cached_tokens":-5}}}`
	h := open(t, option{front: events(roleChunk, contentChunk, finishChunk, claim, "[DONE]").front})
	if status, body := h.chat(chatBody(true, 10, "hi")); status != 200 {
		t.Fatalf("status %d: %s", status, body)
	}
	r := h.records.wait(t, 1)[0]
	if r.Output != 10 || r.Input > 100_000 || r.Cached != 0 || r.Charged != int64(r.Input+r.Output) {
		t.Errorf("record = %+v, want the output limit and a bounded prompt", r)
	}
}

// TestEndlessBeforeFirstToken: what is held back is bounded.
func TestEndlessBeforeFirstToken(t *testing.T) {
	bad := &failing{do: func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			sse(w, roleChunk)
		}
	}}
	bad.on.Store(true)
	h := open(t, option{front: func(_ int, next http.Handler) http.Handler { return bad.front(next) }})
	resp := h.post(t.Context(), "/v1/chat/completions", chatBody(true, 10, "hi"))
	checkError(t, resp, readAll(t, resp), 502, "upstream_error", "", "")
	if !strings.Contains(h.logs.String(), "too much before its first token") {
		t.Errorf("log = %s", h.logs.String())
	}
}

// TestNoUsageFromReplica: what the gateway counts itself is marked.
func TestNoUsageFromReplica(t *testing.T) {
	list := []string{roleChunk}
	for range 120 {
		list = append(list, contentChunk)
	}
	h := open(t, option{front: events(append(list, finishChunk, "[DONE]")...).front})
	if status, body := h.chat(chatBody(true, 500, "hi")); status != 200 {
		t.Fatalf("status %d: %s", status, body)
	}
	r := h.records.wait(t, 1)[0]
	if !r.Estimated || r.Output != 120 || r.Input == 0 || r.Charged != int64(r.Input+120) || r.Status != expediter.StatusOK {
		t.Errorf("record = %+v, want 120 tokens, estimated", r)
	}
}

// TestLimitInjected: what is reserved is what the engine may
// produce, and the engine is told so.
func TestLimitInjected(t *testing.T) {
	script := whole(wholeAnswer)
	h := open(t, option{front: script.front, config: func(c *expediter.Config) {
		c.Pools[0].DefaultMaxTokens, c.Pools[0].MaxTokens = 200, 1000
	}})
	for _, tc := range []struct {
		name, path, fields, sent string
		output                   int64
	}{
		{"chat without a limit", "chat/completions", ``, `"max_tokens":200`, 200},
		{"chat with null", "chat/completions", `,"max_tokens":null`, `"max_tokens":200`, 200},
		{"above the cap", "chat/completions", `,"max_tokens":5000`, `"max_tokens":1000`, 1000},
		{"the newer field wins", "chat/completions", `,"max_tokens":900,"max_completion_tokens":30`, `"max_completion_tokens":30`, 30},
		{"in the other order", "chat/completions", `,"max_completion_tokens":30,"max_tokens":900`, `"max_completion_tokens":30`, 30},
		{"n of 4", "chat/completions", `,"n":4,"max_tokens":10`, `"max_tokens":10`, 40},
		{"completions without a limit", "completions", ``, `"max_tokens":16`, 16},
		{"completions with null", "completions", `,"max_tokens":null`, `"max_tokens":16`, 16},
	} {
		t.Run(tc.name, func(t *testing.T) {
			prompt := `"messages":[{"role":"user","content":"hi"}]`
			if tc.path == "completions" {
				prompt = `"prompt":"hi"`
			}
			n := len(script.requests())
			resp := h.post(t.Context(), "/v1/"+tc.path, `{"model":"gpt-fast",`+prompt+tc.fields+`}`)
			readAll(t, resp)
			sent := script.requests()[n].body
			if !strings.Contains(sent, tc.sent) || strings.Count(sent, "max_")-strings.Count(sent, "max_tokens\"")-strings.Count(sent, "max_completion_tokens\"") != 0 {
				t.Errorf("the replica was sent %s, want %s", sent, tc.sent)
			}
			r := h.records.wait(t, n+1)[n]
			if r.Reserved <= tc.output || r.Reserved > tc.output+50 {
				t.Errorf("reserved %d, want %d and a short prompt", r.Reserved, tc.output)
			}
		})
	}
}
