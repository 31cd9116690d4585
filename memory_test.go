package expediter_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/expediterhq/expediter"
)

// TestPromptMemoryIsHandedOn: streams that have begun hold nothing of the memory
// for bodies; others use what they used, and each still ends as its own request
// asked for.
func TestPromptMemoryIsHandedOn(t *testing.T) {
	const streams, size = 12, 100 << 10
	release := make(chan struct{})
	s := &script{answer: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", `{"id":"x","object":"chat.completion.chunk","model":"acme-8b","choices":[{"index":0,"delta":{"content":"a"}}]}`)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		fmt.Fprintf(w, "data: %s\n\ndata: %s\n\ndata: [DONE]\n\n", finishChunk, usageChunk)
	}}
	h := open(t, option{front: s.front, config: func(c *expediter.Config) {
		c.Limits.Body, c.Limits.Bodies = 2*size, 5*size // a tenant has room for two
	}})
	begun := make([]*bufio.Reader, streams)
	for i := range begun {
		body := chatBody(true, 5, fmt.Sprintf("%03d", i)+strings.Repeat(string(rune('a'+i)), size))
		if i%2 == 0 {
			body = strings.Replace(body, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
		}
		resp := h.post(t.Context(), "/v1/chat/completions", body)
		defer resp.Body.Close()
		begun[i] = bufio.NewReader(resp.Body)
		if line, err := begun[i].ReadString('\n'); resp.StatusCode != 200 || err != nil {
			t.Fatalf("stream %d: status %d, %v: %s", i, resp.StatusCode, err, line)
		}
	}
	close(release)
	for i, r := range begun {
		rest, err := io.ReadAll(r)
		if usage := strings.Contains(string(rest), `"usage"`); err != nil || usage != (i%2 == 0) || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
			t.Errorf("stream %d ends with %q, %v; want usage: %t", i, rest, err, i%2 == 0)
		}
	}
	for i, got := range s.requests() {
		if want := fmt.Sprintf("%03d", i) + strings.Repeat(string(rune('a'+i)), size) + `"`; !strings.Contains(got.body, want) {
			t.Errorf("the replica got another body for stream %d", i)
		}
	}
}
