package expediter_test

import (
	"io"
	"net/http"
	"sync"
)

// script stands in front of a simulated replica: it answers generation
// requests itself and remembers them.
type script struct {
	answer http.HandlerFunc

	mu  sync.Mutex
	got []received
}

type received struct {
	path   string
	header http.Header
	body   string
}

// front puts the script in front of every replica.
func (s *script) front(_ int, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got = append(s.got, received{r.URL.Path, r.Header.Clone(), string(b)})
		s.mu.Unlock()
		s.answer(w, r)
	})
}

func (s *script) requests() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.got...)
}

// events answers with these events.
func events(list ...string) *script {
	return &script{answer: func(w http.ResponseWriter, _ *http.Request) { sse(w, list...) }}
}

// whole answers with one body.
func whole(body string) *script {
	return &script{answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, body)
	}}
}

const (
	finishChunk = `{"id":"x","object":"chat.completion.chunk","model":"acme-8b","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	usageChunk  = `{"id":"x","object":"chat.completion.chunk","model":"acme-8b","choices":[],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}`
	wholeAnswer = `{"id":"x","object":"chat.completion","model":"acme-8b","choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2}}`
)
