package openai_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/openai"
)

func TestO11ErrorsLookLikeOpenAIs(t *testing.T) {
	for _, c := range []struct {
		status int
		typ    string
	}{
		{400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
		{405, "invalid_request_error"}, {408, "timeout_error"}, {413, "invalid_request_error"}, {415, "invalid_request_error"},
		{429, "rate_limit_error"}, {431, "invalid_request_error"}, {500, "server_error"}, {502, "server_error"},
		{503, "server_error"}, {504, "timeout_error"},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Length", "9999")
		if err := (&openai.Error{Status: c.status, Message: "a \"message\"\n"}).Write(w); err != nil {
			t.Fatal(err)
		}
		if w.Code != c.status || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Retry-After") != "" {
			t.Errorf("%d: status %d, header %v", c.status, w.Code, w.Header())
		}
		var body struct {
			Error map[string]any `json:"error"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatalf("%d: %v in %s", c.status, err, w.Body)
		}
		e := body.Error
		if len(e) != 4 || e["message"] != "a \"message\"\n" || e["type"] != c.typ || e["param"] != nil || e["code"] != nil {
			t.Errorf("%d: error %v, want type %q", c.status, e, c.typ)
		}
	}
}

func TestWriteRetryHints(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		final bool
		want  string
		retry string
	}{
		{0, false, "", ""}, {time.Millisecond, false, "1", ""}, {time.Second, false, "1", ""}, {1001 * time.Millisecond, false, "2", ""},
		{90 * time.Second, true, "90", "false"},
	} {
		w := httptest.NewRecorder()
		e := &openai.Error{Status: http.StatusTooManyRequests, Type: "insufficient_quota", Code: "insufficient_quota", Param: "model", Message: "m", After: c.after, Final: c.final}
		if err := e.Write(w); err != nil {
			t.Fatal(err)
		}
		if got := w.Header().Get("Retry-After"); got != c.want {
			t.Errorf("after %v: Retry-After %q, want %q", c.after, got, c.want)
		}
		if got := w.Header().Get("X-Should-Retry"); got != c.retry {
			t.Errorf("final %v: X-Should-Retry %q, want %q", c.final, got, c.retry)
		}
		want := `{"error":{"message":"m","type":"insufficient_quota","param":"model","code":"insufficient_quota"}}` + "\n"
		if w.Body.String() != want {
			t.Errorf("body %s, want %s", w.Body, want)
		}
	}
}

func TestAppendEvent(t *testing.T) {
	e := &openai.Error{Status: 502, Message: "the replica stopped: 漢\xff"}
	got := string(e.AppendEvent([]byte("x")))
	want := "xdata: {\"error\":{\"message\":\"the replica stopped: 漢\ufffd\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n"
	if got != want && got != "xdata: {\"error\":{\"message\":\"the replica stopped: 漢\\ufffd\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n" {
		t.Errorf("AppendEvent = %q, want %q", got, want)
	}
}

func TestModelNotFoundIsNamed(t *testing.T) {
	w := httptest.NewRecorder()
	if err := (&openai.Error{Status: 404, Code: openai.CodeModelNotFound, Param: "model", Message: "no such model"}).Write(w); err != nil {
		t.Fatal(err)
	}
	want := `{"error":{"message":"no such model","type":"not_found_error","param":"model","code":"model_not_found"}}` + "\n"
	if w.Body.String() != want {
		t.Errorf("body %s, want %s", w.Body, want)
	}
}
