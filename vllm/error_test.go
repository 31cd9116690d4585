package vllm_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/expediterhq/expediter/vllm"
)

func TestDecodeError(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   vllm.Error
	}{
		{"engine", 400, `{"error":{"message":"too long","type":"BadRequestError","param":"input_tokens","code":400}}`, vllm.Error{Status: 400, Type: "BadRequestError", Param: "input_tokens", Message: "too long"}},
		{"null param", 404, `{"error":{"message":"no","type":"NotFoundError","param":null,"code":404}}`, vllm.Error{Status: 404, Type: "NotFoundError", Message: "no"}},
		{"key check", 401, `{"error":"Unauthorized"}`, vllm.Error{Status: 401, Message: "Unauthorized"}},
		{"flat", 400, `{"object":"error","message":"no","type":"T","param":"p","code":400}`, vllm.Error{Status: 400, Type: "T", Param: "p", Message: "no"}},
		{"flat under 200", 200, `{"object":"error","message":"no","code":400}`, vllm.Error{Status: 400, Message: "no"}},
		{"nested under 200", 200, `{"error":{"message":"no","code":503}}`, vllm.Error{Status: 503, Message: "no"}},
		{"odd code under 200", 200, `{"error":{"message":"no","code":7}}`, vllm.Error{Status: 200, Message: "no"}},
		{"code does not override", 500, `{"error":{"message":"no","code":400}}`, vllm.Error{Status: 500, Message: "no"}},
		{"framework", 404, `{"detail":"Not Found"}`, vllm.Error{Status: 404, Message: "Not Found"}},
		{"framework list", 422, `{"detail":[{"loc":["body"],"msg":"x"}]}`, vllm.Error{Status: 422}},
		{"html", 502, `<html>`, vllm.Error{Status: 502}},
		{"empty", 500, ``, vllm.Error{Status: 500}},
		{"array", 500, `[]`, vllm.Error{Status: 500}},
		{"message of another type", 500, `{"error":{"message":5}}`, vllm.Error{Status: 500}},
		{"control characters", 400, `{"error":{"message":"a\nb\u0000\u001b[31mc"}}`, vllm.Error{Status: 400, Message: "a b[31mc"}},
	} {
		if got := vllm.DecodeError(c.status, []byte(c.body)); *got != c.want {
			t.Errorf("%s: DecodeError = %#v, want %#v", c.name, *got, c.want)
		}
	}
	long, _ := json.Marshal(map[string]any{"error": map[string]any{"message": strings.Repeat("漢", 5000), "type": strings.Repeat("x", 5000)}})
	e := vllm.DecodeError(400, long)
	if len(e.Message) > 1024 || len(e.Message) < 1000 || !utf8.ValidString(e.Message) || len(e.Type) > 64 {
		t.Errorf("message of %d bytes, type of %d", len(e.Message), len(e.Type))
	}
	if s := vllm.DecodeError(400, []byte(`{"error":{"message":"secret prompt","type":"BadRequestError"}}`)).Error(); s != "vllm: the engine answered status 400 BadRequestError" {
		t.Errorf("Error() = %q", s)
	}
}
