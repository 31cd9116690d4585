package vllm_test

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/vllm"
)

// engine answers in memory, like a replica would.
type engine func(*http.Request) (status int, body io.Reader)

func (e engine) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	status, body := e(r)
	return &http.Response{StatusCode: status, Body: io.NopCloser(body), Header: http.Header{}, Request: r}, nil
}

func TestModels(t *testing.T) {
	keys := map[string]string{}
	client := vllm.NewClient(engine(func(r *http.Request) (int, io.Reader) {
		keys[r.URL.Path] = r.Header.Get("Authorization")
		switch r.URL.Path {
		case "/base/v1/models":
			return 200, strings.NewReader(`{"object":"list","data":[
				{"id":"acme-8b","object":"model","root":"/models/acme","parent":null,"max_model_len":32768,"permission":[]},
				{"id":"t1","parent":"acme-8b","max_model_len":null},{"id":"big","max_model_len":9000000000000000000}]}`)
		}
		return 404, strings.NewReader("")
	}), "secret")
	models, err := vllm.Models(t.Context(), client, "http://replica/base/")
	want := []vllm.Model{{ID: "acme-8b", MaxModelLen: 32768}, {ID: "t1", Parent: "acme-8b"}, {ID: "big", MaxModelLen: vllm.MaxCount}}
	if err != nil || !reflect.DeepEqual(models, want) {
		t.Errorf("Models = %+v, %v, want %+v", models, err, want)
	}
	if err := vllm.Health(t.Context(), client, "http://replica/base"); err == nil || err.Error() != "vllm: /health answered status 404, expected 200" {
		t.Errorf("Health = %v", err)
	}
	if keys["/base/v1/models"] != "Bearer secret" || keys["/base/health"] != "" {
		t.Errorf("keys sent: %v, want one to /v1/models only", keys)
	}
	for _, base := range []string{"http://[", "\x7f://"} {
		if err := vllm.Health(t.Context(), client, base); err == nil || strings.Contains(err.Error(), base) {
			t.Errorf("Health of %q = %v, want an error without the address", base, err)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	client := vllm.NewClient(engine(func(*http.Request) (int, io.Reader) { return 200, zeros{} }), "")
	if _, err := vllm.Models(t.Context(), client, "http://replica"); err == nil || !strings.Contains(err.Error(), "expected a JSON object") {
		t.Errorf("Models = %v, want a refusal", err)
	}
	if err := vllm.Health(t.Context(), client, "http://replica"); err != nil {
		t.Errorf("Health = %v", err)
	}
}
