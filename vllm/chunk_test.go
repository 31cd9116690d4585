package vllm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/vllm"
)

const head = `{"id":"chatcmpl-r1","object":"chat.completion.chunk","created":1780000000,"model":"acme-8b",`

type chunkTest struct {
	name string
	data string
	want vllm.Chunk // fields that are compared: see TestChunk
}

var chunkTests = []chunkTest{
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
	{"an index below zero", head + `"choices":[{"index":-1,"delta":{},"finish_reason":"stop"}]}`,
		vllm.Chunk{Choices: 1, FinishReason: []byte("stop"), Finished: []vllm.Finish{{Index: vllm.MaxCount, Reason: []byte("stop")}}}},
	{"usage", head + `"choices":[],"usage":{"prompt_tokens":1800,"total_tokens":1802,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1536}}}`,
		vllm.Chunk{Usage: vllm.Usage{Present: true, Detailed: true, Prompt: 1800, Completion: 2, Cached: 1536}}},
	{"usage first", `{"usage":{"prompt_tokens":5,"completion_tokens":2},"id":"chatcmpl-r1","model":"acme-8b","choices":[]}`,
		vllm.Chunk{Usage: vllm.Usage{Present: true, Prompt: 5, Completion: 2}}},
	{"completion", head + `"choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":"length","stop_reason":null}]}`,
		vllm.Chunk{Choices: 1, Content: true, FinishReason: []byte("length"), Finished: []vllm.Finish{{Reason: []byte("length")}}}},
	{"running usage", head + `"choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}],"usage":{"prompt_tokens":1800,"total_tokens":1802,"completion_tokens":2}}`,
		vllm.Chunk{Choices: 1, Content: true, Usage: vllm.Usage{Present: true, Prompt: 1800, Completion: 2}}},
	{"nothing cached", head + `"choices":[],"usage":{"prompt_tokens":1800,"total_tokens":1802,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}`,
		vllm.Chunk{Usage: vllm.Usage{Present: true, Detailed: true, Prompt: 1800, Completion: 2}}},
	{"no word of the cache", head + `"choices":[],"usage":{"prompt_tokens":1800,"total_tokens":1802,"completion_tokens":2,"prompt_tokens_details":null}}`,
		vllm.Chunk{Usage: vllm.Usage{Present: true, Prompt: 1800, Completion: 2}}},
	{"null of the cache", head + `"choices":[],"usage":{"prompt_tokens":1800,"total_tokens":1802,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":null}}}`,
		vllm.Chunk{Usage: vllm.Usage{Present: true, Prompt: 1800, Completion: 2}}},
	{"running usage first", `{"usage":{"completion_tokens":2,"prompt_tokens":1800,"prompt_tokens_details":{"cached_tokens":16}},"model":"acme-8b","choices":[{"text":"Hel"}],"id":"chatcmpl-r1"}`,
		vllm.Chunk{Choices: 1, Content: true, Usage: vllm.Usage{Present: true, Detailed: true, Prompt: 1800, Completion: 2, Cached: 16}}},
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

// TestChunkGenerated compares with encoding/json on objects made of the
// fields that a Chunk looks at, in any order and place, with values of every
// kind, and on the same objects with one byte changed.
func TestChunkGenerated(t *testing.T) {
	rounds := 4000
	if testing.Short() {
		rounds = 400
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var c vllm.Chunk
	texts := []string{"", "x", `"`, `\`, `\\`, `\"`, `\u00`, `\u0041`, "\n", "日本", `","content":"`, `"},"delta":{"content":"y`}
	for range rounds {
		data := appendObject(nil, rng, 0)
		if rng.IntN(2) == 0 {
			data = []byte(chunkTests[rng.IntN(len(chunkTests))].data)
		}
		checkChunk(t, &c, data)
		// Then one with another text where it has a string.
		if i := bytes.Index(data, []byte(`content":"`)); i >= 0 {
			i += len(`content":"`)
			n := max(0, bytes.IndexByte(data[i:], '"'))
			for range 3 {
				next := spliced(data, []byte(texts[rng.IntN(len(texts))]), i, n)
				checkChunk(t, &c, withCounts(next, rng))
				checkChunk(t, &c, next)
			}
		}
		data[rng.IntN(len(data))] = `"{}[],:\0 e-.u1`[rng.IntN(15)]
		checkChunk(t, &c, data)
		if t.Failed() {
			return
		}
	}
}

// withCounts changes some of the numbers in usage.
func withCounts(data []byte, rng *rand.Rand) []byte {
	counts := []string{"0", "7", "07", "123456789", "1234567890", "1.5", "1e3", "-2", "null", `"3"`, "", "12 "}
	for _, name := range []string{`prompt_tokens":`, `completion_tokens":`, `total_tokens":`, `cached_tokens":`} {
		i := bytes.Index(data, []byte(name))
		if i < 0 || rng.IntN(2) == 0 {
			continue
		}
		i += len(name)
		n := max(0, bytes.IndexAny(data[i:], ",} "))
		data = spliced(data, []byte(counts[rng.IntN(len(counts))]), i, n)
	}
	return data
}

var chunkKeys = []string{
	"id", "model", "object", "choices", "usage", "error", "message", "type", "code", "index", "text", "delta", "finish_reason",
	"content", "reasoning", "reasoning_content", "refusal", "audio", "tool_calls", "function_call", "role",
	"prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens", `mod\u0065l`, "Model", "", "x",
}

// plausible is what usually stands under a key.
var plausible = map[string]string{
	"choices": "[", "usage": "{", "delta": "{", "message": "{", "prompt_tokens_details": "{", "error": "{",
	"tool_calls": "[", "index": "0", "code": "0", "prompt_tokens": "0", "completion_tokens": "0", "cached_tokens": "0",
}

func appendObject(b []byte, rng *rand.Rand, depth int) []byte {
	b = append(b, '{')
	for i := range rng.IntN(6) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendSpace(b, rng)
		key := chunkKeys[rng.IntN(len(chunkKeys))]
		b = append(b, `"`+key+`"`...)
		b = append(appendSpace(b, rng), ':')
		kind := plausible[key]
		if kind == "" {
			kind = `"`
		}
		if rng.IntN(5) == 0 {
			kind = []string{"[", "{", `"`, "0", "n"}[rng.IntN(5)]
		}
		b = appendSpace(appendValue(b, rng, kind, depth+1), rng)
	}
	return append(b, '}')
}

func appendSpace(b []byte, rng *rand.Rand) []byte {
	if rng.IntN(8) == 0 {
		b = append(b, " \t\r\n"[rng.IntN(4)])
	}
	return b
}

func appendValue(b []byte, rng *rand.Rand, kind string, depth int) []byte {
	pick := func(of ...string) []byte { return append(b, of[rng.IntN(len(of))]...) }
	switch {
	case kind == "{" && depth < 6:
		return appendObject(b, rng, depth)
	case kind == "[" && depth < 6:
		b = append(b, '[')
		for i := range rng.IntN(4) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, rng, []string{"{", "{", "{", `"`, "["}[rng.IntN(5)], depth+1)
		}
		return append(b, ']')
	case kind == "0":
		return pick("0", "1", "17", "-3", "2.75", "1e2", "1E+20", "-1e-5", "4294967296", "999999999", "1234567890", "123456789012345678901234567890123456789012")
	case kind == "n":
		return pick("null", "true", "false")
	}
	return pick(`""`, `"a"`, `"stop"`, `"error"`, `"\n"`, `"\ud83d\ude00 \"x\""`, `"\ud83dx"`, "\"\xff\"", `"twelve bytes\\ and more"`, `"日本語テキスト"`)
}

func TestChunkAllocations(t *testing.T) {
	var c vllm.Chunk
	data := []byte(`{"id":"\u0061","model":"m","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":1800,"completion_tokens":1e3},"error":{"message":"a\nb","code":1234567890}}`)
	if err := c.Parse(data); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = c.Parse(data) }); n != 0 {
		t.Errorf("Parse allocates %v times", n)
	}
}

// TestChunkRepeat checks that a chunk like the one before, which is read in a
// shorter way, gives the same, with offsets of its own text.
func TestChunkRepeat(t *testing.T) {
	var c vllm.Chunk
	for _, text := range []string{"a", "", `b \" c`, `d\u0041`, "日本語", "a long text that is more than eight bytes"} {
		data := strings.Replace(chunkTests[1].data, "Hel", text, 1)
		checkChunk(t, &c, []byte(data))
		if c.Content != (text != "") || string(c.ID) != "chatcmpl-r1" || data[c.ModelStart:c.ModelEnd] != `"acme-8b"` || c.Choices != 1 {
			t.Errorf("text %q: %+v", text, c)
		}
	}
	for i, text := range []string{"a", "", "a long text that is more than eight bytes"} {
		for _, name := range []string{"running usage", "running usage first"} {
			n := slices.IndexFunc(chunkTests, func(tt chunkTest) bool { return tt.name == name })
			data := strings.Replace(chunkTests[n].data, "Hel", text, 1)
			data = strings.Replace(data, `completion_tokens":2`, fmt.Sprintf(`completion_tokens":%d`, 9+i), 1)
			checkChunk(t, &c, []byte(data))
			if c.Usage.Completion != 9+i || c.Usage.Prompt != 1800 {
				t.Errorf("%s: usage is %+v", name, c.Usage)
			}
		}
	}
	checkChunk(t, &c, []byte(strings.Replace(chunkTests[1].data, "Hel", `x"`, 1)))
	checkChunk(t, &c, []byte(strings.Replace(chunkTests[1].data, "Hel", "x\n", 1)))
}

// TestChunkRepeatTraps has chunks that must not be taken for the one before,
// or whose like must not be learnt.
func TestChunkRepeatTraps(t *testing.T) {
	tests := []struct{ name, first, second string }{
		{"other content", `{"choices":[{"delta":{"content":"x","audio":{"id":"a"}}}]}`, `{"choices":[{"delta":{"content":"","audio":{"id":"a"}}}]}`},
		{"two texts", `{"choices":[{"delta":{"content":"x","reasoning":""}}]}`, `{"choices":[{"delta":{"content":"x","reasoning":"y"}}]}`},
		{"text overwritten", `{"choices":[{"delta":{"content":"x","content":null}}]}`, `{"choices":[{"delta":{"content":"yy","content":null}}]}`},
		{"count overwritten", `{"choices":[{"text":"x"}],"usage":{"prompt_tokens":1,"prompt_tokens":null}}`, `{"choices":[{"text":"x"}],"usage":{"prompt_tokens":5,"prompt_tokens":null}}`},
		{"usage overwritten", `{"choices":[{"text":"x"}],"usage":{"prompt_tokens":1},"usage":null}`, `{"choices":[{"text":"x"}],"usage":{"prompt_tokens":5},"usage":null}`},
		{"details overwritten", `{"choices":[{"text":"x"}],"usage":{"prompt_tokens_details":{"cached_tokens":1},"prompt_tokens_details":{}}}`,
			`{"choices":[{"text":"x"}],"usage":{"prompt_tokens_details":{"cached_tokens":5},"prompt_tokens_details":{}}}`},
		{"error", `{"error":{"message":"m"},"choices":[{"text":"x"}]}`, `{"error":{"message":"m"},"choices":[{"text":"y"}]}`},
		{"object is error", `{"object":"error","message":"m","choices":[{"text":"x"}]}`, `{"object":"error","message":"m","choices":[{"text":"y"}]}`},
		{"finish", `{"choices":[{"text":"x","finish_reason":"stop"}]}`, `{"choices":[{"text":"y","finish_reason":"stop"}]}`},
		{"escapes", `{"id":"a\n","model":"b\t","choices":[{"text":"x"}]}`, `{"id":"a\n","model":"b\t","choices":[{"text":"y"}]}`},
		{"escapes in the id", `{"id":"a\n","choices":[{"text":"x"}]}`, `{"id":"a\n","choices":[{"text":"y"}]}`},
		{"more after it", `{"choices":[{"text":"x"}]}`, `{"choices":[{"text":"x"}]}}`},
		{"less", `{"choices":[{"text":"x"}]}`, `{"choices":[{"text":"x"}]`},
		{"id behind", `{"choices":[{"text":"x"}],"id":"i","model":"m"}`, `{"choices":[{"text":"longer"}],"id":"i","model":"m"}`},
		{"empty id", `{"choices":[{"text":"x"}],"id":""}`, `{"choices":[{"text":"y"}],"id":""}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c vllm.Chunk
			for _, data := range []string{tt.first, tt.first, tt.second, tt.first} {
				checkChunk(t, &c, []byte(data))
			}
		})
	}
}

func TestChunkErrors(t *testing.T) {
	tests := []struct {
		name, data   string
		code         int
		message, typ string
	}{
		{"C5 object", `{"error":{"message":"EngineCore died","type":"InternalServerError","param":null,"code":500}}`, 500, "EngineCore died", "InternalServerError"},
		{"C8 flat", `{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}`, 400, "too long", "BadRequestError"},
		{"C8 flat, other order", `{"code":400,"message":"too long","type":"BadRequestError","object":"error"}`, 400, "too long", "BadRequestError"},
		{"text", `{"error":"Unauthorized"}`, 0, "Unauthorized", ""},
		{"code is text", `{"error":{"message":"m","code":"context_length_exceeded"}}`, 0, "m", ""},
		{"escapes", `{"error":{"message":"a\n\"b\"","code":404}}`, 404, "a\n\"b\"", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c vllm.Chunk
			if err := c.Parse([]byte(tt.data)); err != nil {
				t.Fatal(err)
			}
			if !c.Error || c.ErrorCode != tt.code || string(c.ErrorMessage) != tt.message || string(c.ErrorType) != tt.typ {
				t.Errorf("Error = %v, code %d, message %q, type %q", c.Error, c.ErrorCode, c.ErrorMessage, c.ErrorType)
			}
			if c.FirstToken() {
				t.Error("an error counts as first token")
			}
		})
	}
}

func TestChunkFirstToken(t *testing.T) {
	want := map[string]bool{"role": false, "usage": false, "usage first": false, "nothing cached": false, "no word of the cache": false, "null of the cache": false}
	for _, tt := range chunkTests {
		var c vllm.Chunk
		if err := c.Parse([]byte(tt.data)); err != nil {
			t.Fatal(err)
		}
		if _, not := want[tt.name]; c.FirstToken() == not {
			t.Errorf("%s: FirstToken = %v", tt.name, c.FirstToken())
		}
	}
}

func BenchmarkChunk(b *testing.B) {
	for _, tt := range chunkTests {
		b.Run(strings.ReplaceAll(tt.name, " ", "_"), func(b *testing.B) {
			var c vllm.Chunk
			data := []byte(tt.data)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				_ = c.Parse(data)
			}
		})
	}
}

func BenchmarkChunkEncodingJSON(b *testing.B) {
	type chunk struct {
		ID, Model string
		Choices   []struct {
			Index        int
			Delta        struct{ Content string }
			FinishReason *string `json:"finish_reason"`
		}
	}
	data := []byte(chunkTests[1].data)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var c chunk
		_ = json.Unmarshal(data, &c)
	}
}
