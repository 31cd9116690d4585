package vllm_test

import (
	"strings"
	"testing"

	"github.com/expediterhq/expediter/vllm"
)

const head = `{"id":"chatcmpl-r1","object":"chat.completion.chunk","created":1780000000,"model":"acme-8b",`

var chunkTests = []struct {
	name string
	data string
	want vllm.Chunk // fields that are compared: see TestChunk
}{
	{"role", head + `"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}`,
		vllm.Chunk{Choices: 1, Role: true}},
	{"content", head + `"choices":[{"index":0,"delta":{"content":"Hel"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`,
		vllm.Chunk{Choices: 1, Content: true}},
	{"reasoning", head + `"choices":[{"index":0,"delta":{"reasoning":"hm"},"finish_reason":null}]}`,
		vllm.Chunk{Choices: 1, Content: true}},
	{"reasoning_content", head + `"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}`,
		vllm.Chunk{Choices: 1, Content: true}},
	{"refusal", head + `"choices":[{"index":0,"delta":{"refusal":"no"},"finish_reason":null}]}`,
		vllm.Chunk{Choices: 1, Content: true}},
	{"tool call", head + `"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]},"finish_reason":null}]}`,
		vllm.Chunk{Choices: 1, ToolCall: true}},
	{"finish with text", head + `"choices":[{"index":2,"delta":{"content":"lo"},"finish_reason":"stop","stop_reason":null}]}`,
		vllm.Chunk{Choices: 1, Content: true, FinishReason: []byte("stop"), Finished: []vllm.Finish{{Index: 2, Reason: []byte("stop")}}}},
	{"usage", head + `"choices":[],"usage":{"prompt_tokens":1800,"total_tokens":1802,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1536}}}`,
		vllm.Chunk{Usage: vllm.Usage{Present: true, Prompt: 1800, Completion: 2, Cached: 1536}}},
	{"usage first", `{"usage":{"prompt_tokens":5,"completion_tokens":2},"id":"chatcmpl-r1","model":"acme-8b","choices":[]}`,
		vllm.Chunk{Usage: vllm.Usage{Present: true, Prompt: 5, Completion: 2}}},
	{"completion", head + `"choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":"length","stop_reason":null}]}`,
		vllm.Chunk{Choices: 1, Content: true, FinishReason: []byte("length"), Finished: []vllm.Finish{{Reason: []byte("length")}}}},
	{"whole answer", head + `"choices":[{"index":0,"message":{"role":"assistant","content":"Hi","tool_calls":[]},"finish_reason":"stop"},` +
		`{"index":1,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"x"}]},"finish_reason":"tool_calls"}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":9}}`,
		vllm.Chunk{Choices: 2, Content: true, ToolCall: true, Role: true, FinishReason: []byte("tool_calls"),
			Finished: []vllm.Finish{{Index: 0, Reason: []byte("stop")}, {Index: 1, Reason: []byte("tool_calls")}},
			Usage:    vllm.Usage{Present: true, Prompt: 3, Completion: 9}}},
}

func TestChunk(t *testing.T) {
	var c vllm.Chunk
	for _, tt := range chunkTests {
		t.Run(tt.name, func(t *testing.T) {
			checkChunk(t, &c, []byte(tt.data))
			if string(c.ID) != "chatcmpl-r1" || string(c.Model) != "acme-8b" {
				t.Errorf("id %q, model %q", c.ID, c.Model)
			}
			if got := tt.data[c.ModelStart:c.ModelEnd]; got != `"acme-8b"` {
				t.Errorf("model offsets hold %s", got)
			}
			want := tt.want
			if c.Choices != want.Choices || c.Content != want.Content || c.ToolCall != want.ToolCall || c.Role != want.Role ||
				string(c.FinishReason) != string(want.FinishReason) || c.Usage != want.Usage || c.Error || c.Done {
				t.Errorf("Parse = %+v, want %+v", c, want)
			}
			if len(c.Finished) != len(want.Finished) {
				t.Fatalf("%d choices finished, want %d", len(c.Finished), len(want.Finished))
			}
			for i, f := range c.Finished {
				if f.Index != want.Finished[i].Index || string(f.Reason) != string(want.Finished[i].Reason) {
					t.Errorf("Finished[%d] = %d %s, want %d %s", i, f.Index, f.Reason, want.Finished[i].Index, want.Finished[i].Reason)
				}
			}
		})
	}
	for _, s := range chunkSeeds {
		checkChunk(t, &c, []byte(s))
	}
}

func TestChunkDepth(t *testing.T) {
	for _, bracket := range []string{"[", `{"a":`} {
		for _, n := range []int{511, 512, 9999, 1000000} {
			data := `{"x":` + strings.Repeat(bracket, n)
			closing := strings.Repeat(map[string]string{"[": "]", `{"a":`: "}"}[bracket], n) + "}"
			inner := "1"
			var c vllm.Chunk
			err := c.Parse([]byte(data + inner + closing))
			if want := n > 511; (err == vllm.ErrChunkDepth) != want || !want && err != nil {
				t.Errorf("%d of %s: Parse = %v", n, bracket, err)
			}
		}
	}
}
