package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// maxTokens is the output limit of each request here.
const maxTokens = 3

// bodies are conversations of the kinds that the gateway changes before a
// template sees them.
var bodies = map[string]string{
	"content parts": `"messages": [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
		{"role": "user", "content": [{"type": "text", "text": "Is the soup"}, {"type": "text", "text": "ready?"}]}]`,
	"tools": `"messages": [{"role": "user", "content": "What is the weather in Paris?"},
		{"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
			"function": {"name": "weather", "arguments": "{\"city\": \"Paris\", \"days\": 2}"}}]},
		{"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "sunny"}]}],
		"tools": [{"function": {"parameters": {"type": "object", "properties": {"days": {"type": "integer"}, "city": {"type": "string"}}},
			"name": "weather", "description": "Tells the weather."}, "type": "function"}]`,
	"no tools":            `"messages": [{"role": "user", "content": "hello"}], "tools": null`,
	"no prompt to answer": `"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "well"}], "add_generation_prompt": false`,
}

// TestCountsAsTheGateway: the number printed is the one that the gateway
// reserves for.
func TestCountsAsTheGateway(t *testing.T) {
	reserved := gateway(t)
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			body := strings.Join(strings.Fields(body), " ")
			var out struct {
				N     int
				Error string
			}
			line := output1(t, `{"id": 1, `+body+`}`, "-chat", "-count")
			if err := json.Unmarshal([]byte(line), &out); err != nil || out.Error != "" {
				t.Fatalf("output = %s, %v", line, err)
			}
			if want := reserved(t, body) - maxTokens; int64(out.N) != want || want < 1 {
				t.Errorf("n = %d, the gateway counts %d", out.N, want)
			}
		})
	}
}

// gateway starts one with the demo tokenizer. What it returns sends a request
// and says how many tokens were reserved for it.
func gateway(t *testing.T) func(t *testing.T, body string) int64 {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	model, err := tokenize.Load(demo.Files)
	must(err)
	replica := sim.NewServer(sim.Config{Model: "m"})
	t.Cleanup(replica.Close)
	upstream := httptest.NewServer(replica)
	t.Cleanup(upstream.Close)
	pool, err := registry.NewPool(registry.PoolConfig{Name: "p"})
	must(err)
	_, err = pool.Add(registry.ReplicaConfig{URL: upstream.URL})
	must(err)
	reg, err := registry.NewStatic(pool)
	must(err)
	records := make(sink, 1)
	h, err := expediter.New(expediter.Config{
		Registry:     reg,
		Pools:        []expediter.Pool{{Name: "p", Served: "m", Tokenizer: model}},
		Models:       []expediter.Model{{Name: "m", Pool: "p"}},
		Authenticate: func(*http.Request) (*expediter.Tenant, error) { return &expediter.Tenant{ID: "t"}, nil },
		Quota:        quota.NewMemory(quota.MemoryConfig{}),
		Usage:        records,
		Parity:       -1,
	})
	must(err)
	t.Cleanup(func() { h.Close() })
	return func(t *testing.T, body string) int64 {
		t.Helper()
		r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"model": "m", "max_tokens": %d, %s}`, maxTokens, body)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Fatalf("the gateway answers %d: %s", w.Code, w.Body)
		}
		return (<-records).Reserved
	}
}

// sink hands on the record of each request.
type sink chan expediter.Record

// Write implements expediter.Sink.
func (s sink) Write(r *expediter.Record) { s <- *r }
