package chat

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// benchInput is a conversation of 10 turns with 5 tools, two of which are
// called, in the form of a request.
func benchInput(tb testing.TB) Input {
	var tools, msgs []any
	for i := range 5 {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{
			"name":        fmt.Sprintf("lookup_%d", i),
			"description": "Looks up records of the inventory by their attributes and returns the best matches.",
			"parameters": map[string]any{"type": "object", "required": []string{"query"}, "properties": map[string]any{
				"query":  map[string]any{"type": "string", "description": "What to look for, in plain words."},
				"limit":  map[string]any{"type": "integer", "default": 10, "minimum": 1},
				"sort":   map[string]any{"type": "string", "enum": []string{"price", "date", "name"}},
				"filter": map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
			}},
		}})
	}
	say := func(role, text string) { msgs = append(msgs, map[string]any{"role": role, "content": text}) }
	say("system", "You are a concise assistant for an infrastructure team. Answer in at most two sentences.")
	for i := range 10 {
		say("user", fmt.Sprintf("Question %d: which of the replicas has the most free blocks, and since when?", i))
		if i%5 == 2 {
			id := fmt.Sprintf("call%05d", i)
			msgs = append(msgs, map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{
				"id": id, "type": "function", "function": map[string]any{"name": "lookup_1", "arguments": `{"query": "free blocks", "limit": 3}`},
			}}})
			msgs = append(msgs, map[string]any{"role": "tool", "tool_call_id": id, "content": `{"replica": "b-7", "free": 18213}`})
		}
		say("assistant", "Replica b-7 has 18,213 free blocks. "+strings.Repeat("It has been the emptiest since noon. ", 3))
	}
	say("user", "Thanks. And now?")
	raw := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			tb.Fatal(err)
		}
		return b
	}
	return Input{Messages: raw(msgs), Tools: raw(tools), Now: time.Date(2026, 1, 15, 9, 30, 0, 0, time.UTC)}
}

// benchTemplates returns the files of the templates of the reference data.
func benchTemplates(b *testing.B) []string {
	root := os.Getenv("EXPEDITER_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	files, err := filepath.Glob(filepath.Join(root, "golden", "tokenize", "templates", "*.jinja"))
	if err != nil || len(files) == 0 {
		b.Skip("reference templates not found; set EXPEDITER_SHARED")
	}
	return files
}

func benchTemplate(b *testing.B, file string) *Template {
	src, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	t, err := Compile(string(src), Options{BOS: "<s>", EOS: "</s>"})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// reportCPU reports the processor time per run, which other load on the
// machine inflates less than the time on the clock.
func reportCPU(b *testing.B, start time.Duration) {
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
}

// BenchmarkDecode10Turns5Tools is the JSON decoding alone.
func BenchmarkDecode10Turns5Tools(b *testing.B) {
	in := benchInput(b)
	b.ReportAllocs()
	b.SetBytes(int64(len(in.Messages) + len(in.Tools)))
	start := cpuTime()
	for b.Loop() {
		c := newConversation()
		if err := c.decode(&in); err != nil {
			b.Fatal(err)
		}
		c.release()
	}
	reportCPU(b, start)
}

// BenchmarkRender10Turns5Tools is everything after the JSON decoding:
// preprocessing and rendering, for tools that came before.
func BenchmarkRender10Turns5Tools(b *testing.B) { benchRender(b, true) }

// BenchmarkRender10TurnsNewTools is the same for tools that did not.
func BenchmarkRender10TurnsNewTools(b *testing.B) { benchRender(b, false) }

func benchRender(b *testing.B, again bool) {
	in := benchInput(b)
	for _, file := range benchTemplates(b) {
		b.Run(strings.TrimSuffix(filepath.Base(file), ".jinja"), func(b *testing.B) {
			t := benchTemplate(b, file)
			c := new(conversation)
			if again {
				for range 2 {
					if _, err := t.Append(nil, in); err != nil {
						b.Skip("the template refuses the conversation: ", err)
					}
				}
				c.cache = &t.cache
			}
			if err := c.decode(&in); err != nil {
				b.Fatal(err)
			}
			k := new(conversation)
			var dst []byte
			b.ReportAllocs()
			start := cpuTime()
			for b.Loop() {
				slab := k.slab
				*k = *c
				k.slab = slab
				err := k.preprocess(t.format)
				if err != nil {
					b.Fatal(err)
				}
				if dst, err = t.render(dst[:0], k, &in); err != nil {
					b.Skip("the template refuses the conversation: ", err)
				}
				k.slab.Reset()
			}
			reportCPU(b, start)
			b.ReportMetric(float64(len(dst)), "bytes/render")
		})
	}
}

// BenchmarkAppend10Turns5Tools is the whole call, decoding included.
func BenchmarkAppend10Turns5Tools(b *testing.B) {
	in := benchInput(b)
	t := benchTemplate(b, filepath.Join(filepath.Dir(benchTemplates(b)[0]), "qwen3.jinja"))
	var dst []byte
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		var err error
		if dst, err = t.Append(dst[:0], in); err != nil {
			b.Fatal(err)
		}
	}
	reportCPU(b, start)
}
