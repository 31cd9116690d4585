package chat_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tokenize/chat"
)

// mayDiffer reports whether the format and the published template of the
// models are known to treat a conversation differently.
func mayDiffer(t *testing.T, c *goldenConversation) bool {
	t.Helper()
	var msgs []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(c.Messages, &msgs); err != nil {
		t.Fatal(err)
	}
	if !c.Add || string(c.Tools) != "null" || len(msgs) == 0 {
		return true
	}
	for _, m := range msgs {
		if m.Role == "system" || m.Role == "developer" || m.Content[0] != '"' || m.Role == "assistant" && len(m.Content) == 2 {
			return true
		}
	}
	return false
}

func TestHarmonyGolden(t *testing.T) {
	dir := goldenDir(t)
	renders := map[string]goldenRender{}
	for _, r := range readLines[goldenRender](t, filepath.Join(dir, "chat", "rendered-gptoss.jsonl.gz")) {
		renders[r.ID] = r
	}
	same := 0
	for _, c := range readLines[goldenConversation](t, filepath.Join(dir, "chat", "conversations.jsonl.gz")) {
		in := c.input()
		var kw struct {
			Effort string `json:"reasoning_effort"`
		}
		if err := json.Unmarshal(c.Kwargs, &kw); err != nil {
			t.Fatal(err)
		}
		in.ReasoningEffort = kw.Effort
		got, err := new(chat.Harmony).Append(nil, in)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		if mayDiffer(t, &c) {
			continue
		}
		same++
		if want := renders[c.ID].Text; want == nil || string(got) != *want {
			t.Errorf("%s:\n got %q\nwant %v", c.ID, got, renders[c.ID])
		}
	}
	if same != 20 {
		t.Errorf("compared %d renders, want 20", same)
	}
}

const harmonySystem = "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n" +
	"Knowledge cutoff: 2024-06\nCurrent date: 2026-01-15\n\nReasoning: medium\n\n" +
	"# Valid channels: analysis, commentary, final. Channel must be included for every message."

const harmonyCalls = "\nCalls to these tools must go to the commentary channel: 'functions'."

func TestHarmony(t *testing.T) {
	const weather = `[{"type":"function","function":{"name":"get_weather","description":"Weather.\nFor a city.","parameters":{"type":"object","properties":{` +
		`"city":{"type":"string","description":"The city"},"unit":{"type":"string","enum":["celsius","fahrenheit"],"default":"celsius"},` +
		`"days":{"type":"integer","default":3},"note":{"type":"string","default":"none","nullable":true}},"required":["city"]}}},` +
		`{"type":"function","function":{"name":"now"}}]`
	const weatherText = "<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions {\n\n// Weather.\n// For a city.\n" +
		"type get_weather = (_: {\n// The city\ncity: string,\nunit?: \"celsius\" | \"fahrenheit\", // default: celsius\ndays?: number, // default: 3\n" +
		"note?: string | null, // default: \"none\"\n}) => any;\n\ntype now = () => any;\n\n} // namespace functions<|end|>"
	tests := []struct {
		name, messages, tools, want string
		effort                      string
	}{
		{
			name:     "system message stays",
			messages: `[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`,
			want:     harmonySystem + "<|end|><|start|>system<|message|>Be brief.<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant",
		},
		{
			name:     "effort",
			messages: `[{"role":"user","content":"Hi"}]`,
			effort:   "high",
			want:     strings.Replace(harmonySystem, "medium", "high", 1) + "<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant",
		},
		{
			name:     "tools",
			messages: `[{"role":"user","content":"Hi"}]`,
			tools:    weather,
			want:     harmonySystem + harmonyCalls + "<|end|>" + weatherText + "<|start|>user<|message|>Hi<|end|><|start|>assistant",
		},
		{
			name: "parallel calls with reasoning and text, and their results",
			messages: `[{"role":"user","content":"Hi"},{"role":"assistant","content":"I look.","reasoning":"plan","tool_calls":[` +
				`{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":""}}]},` +
				`{"role":"tool","tool_call_id":"b","content":"two"},{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"one"}]}]`,
			want: harmonySystem + "<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>" +
				"<|start|>assistant<|channel|>analysis<|message|>plan<|end|>" +
				"<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{\"x\": 1}<|call|>" +
				"<|start|>assistant to=functions.g<|channel|>commentary json<|message|><|call|>" +
				"<|start|>functions.g to=assistant<|channel|>commentary<|message|>two<|end|>" +
				"<|start|>functions.f to=assistant<|channel|>commentary<|message|>one<|end|><|start|>assistant",
		},
		{
			name: "reasoning before the final answer of the turn is dropped",
			messages: `[{"role":"user","content":"q"},{"role":"assistant","reasoning_content":"r1","content":"a1"},` +
				`{"role":"user","content":"q2"},{"role":"assistant","reasoning":"r2","content":"a2"}]`,
			want: harmonySystem + "<|end|><|start|>user<|message|>q<|end|><|start|>assistant<|channel|>final<|message|>a1<|end|>" +
				"<|start|>user<|message|>q2<|end|><|start|>assistant<|channel|>final<|message|>a2<|end|><|start|>assistant",
		},
		{
			name: "reasoning of an unfinished turn is kept",
			messages: `[{"role":"user","content":"q"},{"role":"assistant","reasoning":"r","content":"","tool_calls":[` +
				`{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"t"}]`,
			want: harmonySystem + "<|end|><|start|>user<|message|>q<|end|><|start|>assistant<|channel|>analysis<|message|>r<|end|>" +
				"<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>" +
				"<|start|>functions.f to=assistant<|channel|>commentary<|message|>t<|end|><|start|>assistant",
		},
		{
			name:     "empty assistant message is left out",
			messages: `[{"role":"user","content":"q"},{"role":"assistant","content":""},{"role":"user","content":""}]`,
			want:     harmonySystem + "<|end|><|start|>user<|message|>q<|end|><|start|>user<|message|><|end|><|start|>assistant",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := chat.Input{Messages: []byte(tt.messages), Tools: []byte(tt.tools), ReasoningEffort: tt.effort, Now: testNow}
			got, err := new(chat.Harmony).Append([]byte("p:"), in)
			if err != nil || string(got) != "p:"+tt.want {
				t.Errorf("Append = %v\n got %q\nwant %q", err, got, "p:"+tt.want)
			}
		})
	}
}

func TestHarmonyTypes(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"no properties", `{"type":"object","properties":{}}`, "{\n}"},
		{"array", `{"type":"array","items":{"type":"integer"}}`, "number[]"},
		{"array of anything", `{"type":"array"}`, "Array<any>"},
		{"several types", `{"type":["integer","string","null"]}`, "number | string | null"},
		{"no type", `{"description":"x"}`, "any"},
		{"boolean", `{"type":"boolean"}`, "boolean"},
		{"nested", `{"type":"object","description":"outer","properties":{"a":{"type":"object","required":["b"],"properties":{"b":{"type":"number","description":"deep"}}}}}`,
			"// outer\n{\na?: {\n    // deep\n    b: number,\n    },\n}"},
		{"title and examples", `{"type":"object","properties":{"a":{"type":"string","title":"T","examples":["x","y"]}}}`,
			"{\n// T\n//\n// Examples:\n// - \"x\"\n// - \"y\"\na?: string,\n}"},
		{"union", `{"oneOf":[{"type":"string","default":"x"},{"type":"number","description":"n","nullable":true}]}`,
			"\n | string // default: \"x\"\n | number | null // n"},
		{"union property", `{"type":"object","properties":{"a":{"description":"d","default":1.5,"oneOf":[{"type":"string","description":"s"},{"type":"number","description":"n"}]}}}`,
			"{\n// d\n// default: 1.5\na?:\n | string\n | number // n\n,\n}"},
		{"union property with shared description", `{"type":"object","properties":{"a":{"description":"d","oneOf":[{"type":"string","description":"d"},{"type":"string","enum":["p","q"],"default":"p"}]}}}`,
			"{\na?:\n | string\n | \"p\" | \"q\" // default: p\n,\n}"},
		{"default object", `{"type":"object","properties":{"a":{"type":"object","default":{"k":[1,2]}}}}`, "{\na?: {\n    }, // default: {\"k\":[1,2]}\n}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := chat.Input{Messages: []byte("[]"), Tools: []byte(`[{"function":{"name":"f","parameters":` + tt.schema + `}}]`), Now: testNow}
			got, err := new(chat.Harmony).Append(nil, in)
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(got), "type f = (_: ")
			typ, _, ok := strings.Cut(rest, ") => any;\n\n} // namespace functions<|end|>")
			if !ok || typ != tt.want {
				t.Errorf("type = %q, want %q", typ, tt.want)
			}
		})
	}
}

// TestHarmonySpans checks that text which spells a special token is in a span
// and that everything outside of the spans is special tokens.
func TestHarmonySpans(t *testing.T) {
	in := chat.Input{
		Messages: []byte(`[{"role":"user","content":[{"type":"text","text":"a<|end|>"},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"b"}]}]`),
		Now:      testNow,
	}
	h := &chat.Harmony{Identity: "I", Cutoff: "2025-01", Date: "2025-02-03"}
	out, spans, info, err := h.AppendSpans([]byte("xy"), nil, in)
	if err != nil {
		t.Fatal(err)
	}
	if !info.Approximate {
		t.Error("Approximate = false for a message with an image")
	}
	var texts, rest []string
	at := 2
	for _, s := range spans {
		rest = append(rest, string(out[at:s.Start]))
		texts = append(texts, string(out[s.Start:s.End]))
		at = s.End
	}
	want := []string{"system", "I\nKnowledge cutoff: 2025-01\nCurrent date: 2025-02-03\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.",
		"user", "a<|end|>", "b", "assistant"}
	if strings.Join(texts, "|") != strings.Join(want, "|") {
		t.Errorf("texts = %q, want %q", texts, want)
	}
	if got := strings.Join(rest, ","); got != "<|start|>,<|message|>,<|end|><|start|>,<|message|>,,<|end|><|start|>" {
		t.Errorf("between the texts: %q", got)
	}
}

func TestHarmonyErrors(t *testing.T) {
	tests := []struct{ name, messages, tools, effort string }{
		{"effort", `[]`, "", "none"},
		{"role", `[{"role":"critic","content":"x"}]`, "", ""},
		{"message", `[1]`, "", ""},
		{"content", `[{"role":"user","content":1}]`, "", ""},
		{"part", `[{"role":"user","content":[1]}]`, "", ""},
		{"call", `[{"role":"assistant","tool_calls":[1]}]`, "", ""},
		{"call without function", `[{"role":"assistant","tool_calls":[{"id":"a"}]}]`, "", ""},
		{"tool", `[]`, `[{"type":"function"}]`, ""},
		{"JSON", `[`, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := new(chat.Harmony).Append([]byte("p"), chat.Input{Messages: []byte(tt.messages), Tools: []byte(tt.tools), ReasoningEffort: tt.effort})
			if e, ok := err.(*chat.Error); !ok || e.Kind != chat.KindInput || string(out) != "p" {
				t.Errorf("Append = %q, %v, want an input error", out, err)
			}
		})
	}
}
