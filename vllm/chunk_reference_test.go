package vllm_test

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strconv"
	"testing"

	"github.com/expediterhq/expediter/vllm"
)

// chunkFacts is what a Chunk says, in a form that can be compared.
type chunkFacts struct {
	ID, Model, ModelJSON    string
	Choices                 int
	Content, ToolCall, Role bool
	FinishReason            string
	Finished                []string
	Error                   bool
	ErrorCode               int
	ErrorMessage, ErrorType string
	Usage                   vllm.Usage
	HasUsage                bool
	Rest                    string // the object without usage, as encoding/json writes it
}

// goString replaces invalid UTF-8 as encoding/json does.
func goString(b []byte) string { return string([]rune(string(b))) }

func factsOf(t *testing.T, c *vllm.Chunk, data []byte) chunkFacts {
	f := chunkFacts{
		ID: goString(c.ID), Model: goString(c.Model), Choices: c.Choices,
		Content: c.Content, ToolCall: c.ToolCall, Role: c.Role,
		FinishReason: goString(c.FinishReason),
		Error:        c.Error, ErrorCode: c.ErrorCode,
		ErrorMessage: goString(c.ErrorMessage), ErrorType: goString(c.ErrorType),
		Usage: c.Usage, HasUsage: c.UsageEnd > 0,
	}
	for _, fin := range c.Finished {
		f.Finished = append(f.Finished, strconv.Itoa(fin.Index)+" "+goString(fin.Reason))
	}
	if c.ModelEnd > 0 {
		var s string
		if err := json.Unmarshal(data[c.ModelStart:c.ModelEnd], &s); err != nil {
			t.Errorf("model offsets hold %q: %v", data[c.ModelStart:c.ModelEnd], err)
		}
		f.ModelJSON = s
	}
	rest := append(bytes.Clone(data[:c.UsageStart]), data[c.UsageEnd:]...)
	var m map[string]any
	if err := decode(rest, &m); err != nil {
		t.Errorf("without usage %q is left: %v", rest, err)
	}
	f.Rest = encode(m)
	return f
}

func decode(data []byte, v any) error {
	if !json.Valid(data) {
		return io.ErrUnexpectedEOF
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

func encode(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// reference reads the same from what encoding/json makes of data.
func reference(m map[string]any) chunkFacts {
	var f chunkFacts
	f.ID, f.Model = refString(m["id"]), refString(m["model"])
	f.ModelJSON = f.Model
	choices, _ := m["choices"].([]any)
	f.Choices = len(choices)
	for _, v := range choices {
		choice, _ := v.(map[string]any)
		f.Content = f.Content || refFilled(choice["text"])
		for _, key := range []string{"delta", "message"} {
			said, _ := choice[key].(map[string]any)
			for _, k := range []string{"content", "reasoning", "reasoning_content", "refusal", "audio"} {
				f.Content = f.Content || refFilled(said[k])
			}
			f.ToolCall = f.ToolCall || refFilled(said["tool_calls"]) || refFilled(said["function_call"])
			f.Role = f.Role || refString(said["role"]) != ""
		}
		if r := refString(choice["finish_reason"]); r != "" {
			f.FinishReason = r
			f.Finished = append(f.Finished, strconv.Itoa(refIndex(choice["index"]))+" "+r)
		}
	}
	refError(&f, m)
	_, f.HasUsage = m["usage"]
	if u, ok := m["usage"].(map[string]any); ok {
		details, _ := u["prompt_tokens_details"].(map[string]any)
		_, detailed := details["cached_tokens"].(json.Number)
		f.Usage = vllm.Usage{
			Present: true, Detailed: detailed, Prompt: refCount(u["prompt_tokens"]),
			Completion: refCount(u["completion_tokens"]), Cached: refCount(details["cached_tokens"]),
		}
	}
	delete(m, "usage")
	f.Rest = encode(m)
	return f
}

func refError(f *chunkFacts, m map[string]any) {
	switch e := m["error"].(type) {
	case nil:
	case bool:
		f.Error = e
	case string:
		f.Error, f.ErrorMessage = e != "", e
	case map[string]any:
		f.Error = true
		f.ErrorMessage, f.ErrorType, f.ErrorCode = refString(e["message"]), refString(e["type"]), refCount(e["code"])
	default:
		f.Error = true
	}
	if !f.Error && m["object"] == "error" {
		f.Error = true
		f.ErrorMessage, f.ErrorType, f.ErrorCode = refString(m["message"]), refString(m["type"]), refCount(m["code"])
	}
}

func refString(v any) string {
	s, _ := v.(string)
	return s
}

func refFilled(v any) bool {
	switch v := v.(type) {
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

func refIndex(v any) int {
	n, _ := v.(json.Number)
	if f, _ := strconv.ParseFloat(string(n), 64); f < 0 {
		return vllm.MaxCount
	}
	return refCount(v)
}

func refCount(v any) int {
	n, _ := v.(json.Number)
	f, _ := strconv.ParseFloat(string(n), 64)
	return int(min(max(f, 0), vllm.MaxCount))
}

// checkChunk compares one Parse with the reference.
func checkChunk(t *testing.T, c *vllm.Chunk, data []byte) {
	t.Helper()
	err := c.Parse(data)
	if c.Done {
		if err != nil || string(bytes.Trim(data, " \t\r\n")) != "[DONE]" {
			t.Errorf("Parse(%q) = %v and Done", data, err)
		}
		return
	}
	if err == vllm.ErrChunkDepth {
		if depth := bytes.Count(data, []byte("[")) + bytes.Count(data, []byte("{")); depth <= 512 {
			t.Errorf("Parse(%q) = %v, but there are only %d brackets", data, err, depth)
		}
		return
	}
	var m map[string]any
	var v any
	if valid := decode(data, &v) == nil; valid != (err == nil || err == vllm.ErrChunkObject) {
		t.Fatalf("Parse(%q) = %v, but valid = %v", data, err, valid)
	}
	m, isObject := v.(map[string]any)
	if isObject != (err == nil) {
		t.Fatalf("Parse(%q) = %v, but an object = %v", data, err, isObject)
	}
	if err != nil {
		return
	}
	got, want := factsOf(t, c, data), reference(m)
	if duplicateUsage(data) {
		got.Rest, want.Rest = "", ""
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Parse(%q)\n got %+v\nwant %+v", data, got, want)
	}
}

// duplicateUsage reports whether the top level may have more than one usage
// field, of which a Chunk locates the last.
func duplicateUsage(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	n, depth, key := 0, 0, false
	for {
		tok, err := d.Token()
		if err != nil {
			return n > 1
		}
		switch tok := tok.(type) {
		case json.Delim:
			if tok == '{' || tok == '[' {
				depth++
				key = tok == '{' && depth == 1
				continue
			}
			depth--
			key = depth == 1
		default:
			if depth != 1 {
				continue
			}
			if key && tok == "usage" {
				n++
			}
			key = !key
		}
	}
}
