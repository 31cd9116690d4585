package sim_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/sim"
)

// TestRender: the ids are those of /tokenize, and nothing is generated.
func TestRender(t *testing.T) {
	srv, hs := fast(t, sim.Config{APIKey: "k"})
	const chat = `{"model":"acme-8b","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]}`
	ids := func(path, field string) string {
		t.Helper()
		resp := post(t, hs.URL+path, chat, "Authorization", "Bearer k")
		body := readAll(t, resp)
		_, rest, ok := strings.Cut(body, `"`+field+`":`)
		list, _, closed := strings.Cut(rest, "]")
		if resp.StatusCode != http.StatusOK || !ok || !closed {
			t.Fatalf("%s: status %d, body %s", path, resp.StatusCode, body)
		}
		return list
	}
	if r, k := ids("/v1/chat/completions/render", "token_ids"), ids("/tokenize", "tokens"); r != k || len(r) < 10 {
		t.Errorf("rendered %s, tokenized %s, want the same ids", r, k)
	}
	for _, c := range []struct {
		body, key string
		status    int
	}{
		{chat, "", http.StatusUnauthorized},
		{`{"model":"nope","messages":[]}`, "Bearer k", http.StatusNotFound},
		{`{"model":"acme-8b"}`, "Bearer k", http.StatusBadRequest},
		{`{`, "Bearer k", http.StatusBadRequest},
	} {
		if resp := post(t, hs.URL+"/v1/chat/completions/render", c.body, "Authorization", c.key); resp.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.body, resp.StatusCode, c.status)
		}
	}
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("%d requests generated, want 0", n)
	}
}
