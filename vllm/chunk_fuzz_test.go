package vllm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/vllm"
)

func FuzzChunk(f *testing.F) {
	for _, tt := range chunkTests {
		f.Add([]byte(tt.data))
	}
	for _, s := range chunkSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c vllm.Chunk
		checkChunk(t, &c, data)
		// What an earlier chunk held must not show in a later one.
		checkChunk(t, &c, []byte(`{"model":"m"}`))
		checkChunk(t, &c, data)
	})
}

// chunkSeeds are texts that are near JSON, or JSON of odd shapes.
var chunkSeeds = []string{
	"", " ", "[DONE]", " [DONE]\r\n", "[DONE", "null", "[]", "0A0", "1 2", `"x"`, "{}", "{ }", "{}x", "{}{}", "{,}", `{"a":1,}`,
	`{"a"}`, `{"a":}`, `{"a":[1,]}`, `{"a":[}`, `{"a":{]}`, `{"a":tru}`, `{"a":nul}`, `{"a":01}`, `{"a":-}`, `{"a":1.}`,
	`{"a":1e}`, `{"a":1e+}`, `{"a":-0.5E-7}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u12G4"}`, "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}",
	`{"id":"\ud83d\ude00","model":"\ud800x\udc00\u0041"}`, `{"mod\u0065l":"x\/y","MODEL":"z"}`, `{"model":"a","model":"b"}`,
	`{"model":"a","model":1}`, "{\"\xff\":1,\"id\":\"\xffa\\n\xfe\"}", "\ufeff{}", "{}\x00", "{\"a\":\x00}",
	`{"usage":null}`, `{"usage":{}}`, `{"usage":[],"a":1}`, `{"a":1 , "usage":{"prompt_tokens":1} }`, `{"usage":{} ,"usage":{}}`,
	`{"usage":{"prompt_tokens":-5,"completion_tokens":1e300,"prompt_tokens_details":{"cached_tokens":1e999}}}`,
	`{"usage":{"prompt_tokens":12.9,"completion_tokens":"7","prompt_tokens_details":null}}`,
	`{"usage":{"prompt_tokens":9999999999,"completion_tokens":2147483648,"prompt_tokens_details":{"cached_tokens":-0}}}`,
	`{"choices":null}`, `{"choices":{}}`, `{"choices":[null,1,"x",[],{}]}`, `{"choices":[{"delta":null,"finish_reason":""}]}`,
	`{"choices":[{"delta":{"content":"x"}}],"choices":[]}`, `{"choices":[{"delta":{"content":"x"},"delta":{}}]}`,
	`{"choices":[{"delta":{"content":"x","content":null,"tool_calls":[ ],"function_call":{ }}}]}`,
	`{"error":null}`, `{"error":false}`, `{"error":true}`, `{"error":0}`, `{"error":""}`, `{"error":[]}`, `{"error":{}}`,
	`{"error":{"message":"a"},"error":"b"}`, `{"object":"error","error":null,"message":"m","code":"400"}`,
}

// FuzzChunkRepeat reads a chunk and then one that differs from it in two
// places, with the same Chunk, as happens all the time in a stream.
func FuzzChunkRepeat(f *testing.F) {
	for _, tt := range chunkTests {
		at := uint16(max(0, strings.Index(tt.data, `Hel`)))
		count := uint16(max(0, strings.LastIndex(tt.data, "tokens\":2")+8))
		for _, text := range []string{"lo", `\"`, `","content":"`, ""} {
			f.Add([]byte(tt.data), []byte(text), at, uint16(3), []byte("3"), count, uint16(1))
		}
	}
	f.Fuzz(func(t *testing.T, data, text []byte, at, n uint16, text2 []byte, at2, n2 uint16) {
		var c vllm.Chunk
		checkChunk(t, &c, data)
		second := spliced(data, text2, int(at2), int(n2))
		checkChunk(t, &c, spliced(second, text, int(at), int(n)))
		checkChunk(t, &c, second)
		checkChunk(t, &c, data)
	})
}

// spliced returns data with text in place of n bytes.
func spliced(data, text []byte, at, n int) []byte {
	at = min(at, len(data))
	end := min(at+n, len(data))
	return slices.Concat(data[:at], text, data[end:])
}
