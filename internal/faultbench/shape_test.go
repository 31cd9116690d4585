package faultbench_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/tenant"
)

// TestO11EveryRefusal: each way to be refused says so in OpenAI's shape.
func TestO11EveryRefusal(t *testing.T) {
	var mode atomic.Value
	mode.Store("ok")
	h := refusing(t, &mode)
	send := func(t *testing.T, want int, edit func(r *http.Request, body *string)) { sendRefused(t, h, want, edit) }
	for _, tc := range []struct {
		name, mode string
		status     int
		edit       func(r *http.Request, body *string)
	}{
		{"O11 401", "ok", 401, func(r *http.Request, _ *string) { r.Header.Del("Authorization") }},
		{"O11 404 model", "ok", 404, func(_ *http.Request, b *string) { *b = strings.Replace(*b, faultbench.Alias, "x", 1) }},
		{"O11 404 path", "ok", 404, func(r *http.Request, _ *string) { r.URL.Path = "/v1/nothing" }},
		{"O11 405", "ok", 405, func(r *http.Request, _ *string) { r.Method = "PUT" }},
		{"O11 431 fields", "ok", 431, func(r *http.Request, _ *string) { r.Header["X-Many"] = make([]string, 101) }},
		{"O11 431 bytes", "ok", 431, func(r *http.Request, _ *string) { r.Header.Set("X-Large", strings.Repeat("x", 64<<10)) }},
		{"O11 413", "ok", 413, func(_ *http.Request, b *string) { *b += strings.Repeat(" ", 20_000) }},
		{"O11 415", "ok", 415, func(r *http.Request, _ *string) { r.Header.Set("Content-Type", "text/plain") }},
		{"O11 400 syntax", "ok", 400, func(_ *http.Request, b *string) { *b = "{" }},
		{"O11 400 quota", "ok", 400, func(_ *http.Request, b *string) { *b = strings.Replace(*b, `"max_tokens":5`, `"max_tokens":5000`, 1) }},
		{"O11 429 quota", "ok", 429, func(_ *http.Request, b *string) { *b = strings.Replace(*b, `"max_tokens":5`, `"max_tokens":2980`, 1) }},
		{"O11 400 of the engine", "400", 400, nil},
		{"O11 401 of the engine", "401", 502, nil}, // the gateway's key is wrong, not the client's
		{"O11 403 of the engine", "403", 502, nil},
		{"O11 501", "501", 501, nil},
		{"O11 502", "500", 502, nil},
		{"O11 503 overloaded", "503", 503, nil},
		{"O11 504", "silent", 504, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mode.Store(tc.mode)
			if tc.name == "O11 429 quota" { // some of the quota has to be gone
				mode.Store("ok")
				h.Do(t.Context(), faultbench.Request{MaxTokens: 200})
			}
			send(t, tc.status, tc.edit)
		})
	}
	t.Run("O11 408", func(t *testing.T) {
		l := h.Dial()
		fmt.Fprint(l.Conn, h.Head(100)+"{")
		wantRefusal(t, l, 408)
	})
	t.Run("O11 503 no replica", func(t *testing.T) {
		h.Members[0].Drain()
		send(t, 503, nil)
		h.Members[0].Resume()
	})
	t.Run("O11 503 draining", func(t *testing.T) {
		if err := h.Handler.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		send(t, 503, nil)
	})
}

// refusing is a house whose replica does as mode says.
func refusing(t *testing.T, mode *atomic.Value) *faultbench.House {
	return faultbench.Open(t, faultbench.Options{
		Replicas: 1, Unseen: true, Loose: true,
		Tenant: func(tn *tenant.Tenant) {
			tn.Limit = quota.Limit{Concurrency: 1, Windows: []quota.Window{{Name: "minute", Rate: 1, Burst: 3000}}}
		},
		Config: func(c *expediter.Config) {
			c.Limits.Body = 10_000
			c.Timeouts.Body, c.Timeouts.FirstToken, c.Timeouts.Answer = time.Second, time.Second, time.Second
			c.Retry.Kills = 100
			c.Scrape = -1
		},
		Respond: func(g *faultbench.Got) faultbench.Script {
			switch mode.Load() {
			case "400":
				return faultbench.JSON(400, []byte(`{"error":{"message":"bad temperature","type":"BadRequestError","param":"temperature","code":400}}`), 0)
			case "401", "403":
				status, _ := strconv.Atoi(mode.Load().(string)) // it is a number
				return faultbench.JSON(status, []byte(`{"error":"Unauthorized"}`), 0)
			case "501":
				return faultbench.JSON(501, []byte(`{"detail":"no"}`), 0)
			case "500":
				return faultbench.JSON(500, []byte(`<html>`), 0)
			case "503":
				return faultbench.JSON(503, []byte(`{}`), 0)
			case "silent":
				return faultbench.Script{End: faultbench.Silent}
			}
			return faultbench.Speak(g).Script()
		},
	})
}

// sendRefused sends a request, streamed and not, and checks the refusal.
func sendRefused(t *testing.T, h *faultbench.House, want int, edit func(r *http.Request, body *string)) {
	t.Helper()
	for _, stream := range []bool{true, false} {
		r := faultbench.Request{MaxTokens: 5}
		r.Stream = stream
		body, _ := r.Body()
		req, err := http.NewRequest(http.MethodPost, h.URL+"/v1/chat/completions", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+h.Key)
		if edit != nil {
			edit(req, &body)
		}
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		resp, err := h.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var a faultbench.Answer
		a.Read(resp, nil)
		_ = resp.Body.Close()
		if a.Status != want || a.Error == "" || a.Code == "" || a.Code == "<nil>" && want != 400 && want != 501 || !strings.HasPrefix(a.Body, `{"error":{"message":"`) ||
			!strings.Contains(a.Body, `"type":"`) || resp.Header.Get("Content-Type") != "application/json" || strings.Contains(a.Body, "127.0.0.1") {
			t.Errorf("stream %t: status %d, want %d; %v; %s", stream, a.Status, want, resp.Header, a.Body)
		}
		if want == 429 && resp.Header.Get("Retry-After") == "" || want == 503 && resp.Header.Get("Retry-After") == "" {
			t.Errorf("status %d without Retry-After", want)
		}
		if id, scheme := resp.Header.Get("X-Request-Id"), resp.Header.Get("WWW-Authenticate"); id == "" || (scheme == "Bearer") != (want == 401) {
			t.Errorf("status %d with X-Request-Id %q and WWW-Authenticate %q", want, id, scheme)
		}
		for _, m := range h.Members { // failures of one case are not the next one's
			m.Succeeded(time.Now())
		}
	}
}
