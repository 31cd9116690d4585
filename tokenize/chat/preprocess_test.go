package chat_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/expediterhq/expediter/tokenize/chat"
)

// dumpString shows what a template of the string format gets, dumpParts what
// one of the openai format gets.
const (
	dumpString = "{% for m in messages %}{{ m | tojson }};{% endfor %}"
	dumpParts  = dumpString + "{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}"
)

func compile(t testing.TB, source string, o chat.Options) *chat.Template {
	t.Helper()
	tmpl, err := chat.Compile(source, o)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func TestPreprocessMessages(t *testing.T) {
	tests := []struct {
		name, in      string
		str, parts    string // want in the two formats
		approximate   bool
		partsSameText bool
	}{
		{
			name:  "string",
			in:    `[{"content":"a","role":"user","other":1,"name":"bob"}]`,
			str:   `{"role": "user", "content": "a", "name": "bob"};`,
			parts: `{"role": "user", "content": [{"type": "text", "text": "a"}], "name": "bob"};`,
		},
		{
			name:  "text parts",
			in:    `[{"role":"user","content":[{"type":"text","text":"a"},"b",{"type":"input_text","text":"c"},{"type":"text","text":null},{"type":"refusal","refusal":"d"}]}]`,
			str:   `{"role": "user", "content": "a\nb\nc\nd"};`,
			parts: `{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "text", "text": "c"}, {"type": "text", "text": "d"}]};`,
		},
		{
			name:        "image",
			in:          `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}},{"image_url":"u","uuid":"1"},{"type":"input_audio","input_audio":{}}]}]`,
			str:         `{"role": "user", "content": "a"};`,
			parts:       `{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "image"}, {"type": "audio"}]};`,
			approximate: true,
		},
		{
			name:  "no content",
			in:    `[{"role":"assistant","content":null},{"role":"assistant"}]`,
			str:   `{"role": "assistant", "content": ""};{"role": "assistant", "content": ""};`,
			parts: `{"role": "assistant", "content": []};{"role": "assistant", "content": []};`,
		},
		{
			name: "tool calls",
			in: `[{"role":"assistant","content":"x","tool_calls":[{"type":"function","index":3,"id":"i","function":{"name":"f","arguments":"{\"b\": 1, \"a\": 12345678901234567890}","x":true}},` +
				`{"id":"j","function":{"arguments":"","name":"g"}},{"id":"k","function":{"arguments":"null","name":"g"}},{"id":"l","function":{"arguments":"{oops","name":"g"}},{"id":"m","function":{"arguments":{"z":1},"name":"g"}}]}]`,
			str: `{"role": "assistant", "content": "x", "tool_calls": [{"id": "i", "function": {"arguments": {"b": 1, "a": 12345678901234567890}, "name": "f", "x": true}, "type": "function", "index": 3}, ` +
				`{"id": "j", "function": {"arguments": {}, "name": "g"}}, {"id": "k", "function": {"arguments": {}, "name": "g"}}, {"id": "l", "function": {"arguments": {"__vllm_malformed_json__": "{oops"}, "name": "g"}}, ` +
				`{"id": "m", "function": {"arguments": {"z": 1}, "name": "g"}}]};`,
			partsSameText: true,
		},
		{
			name:          "empty tool calls are dropped",
			in:            `[{"role":"assistant","content":"x","tool_calls":[]},{"role":"assistant","content":"x","tool_calls":null},{"role":"user","content":"x","tool_calls":[1]}]`,
			str:           `{"role": "assistant", "content": "x"};{"role": "assistant", "content": "x"};{"role": "user", "content": "x"};`,
			partsSameText: true,
		},
		{
			name:          "reasoning",
			in:            `[{"role":"assistant","content":"x","reasoning":"r"},{"role":"assistant","content":"x","reasoning_content":"s"},{"role":"user","content":"x","reasoning":"no"}]`,
			str:           `{"role": "assistant", "content": "x", "reasoning": "r", "reasoning_content": "r"};{"role": "assistant", "content": "x", "reasoning": "s", "reasoning_content": "s"};{"role": "user", "content": "x"};`,
			partsSameText: true,
		},
		{
			name: "tool results",
			in: `[{"role":"tool","content":"x","tool_call_id":"i"},{"role":"tool","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"tool_call_id":"i"},` +
				`{"role":"tool","content":[{"type":"text","text":"a"},{"type":"tool_reference","name":"t"}]}]`,
			str: `{"role": "tool", "content": "x", "tool_call_id": "i"};{"role": "tool", "content": "a\nb", "tool_call_id": "i"};{"role": "tool", "content": "a\nt"};`,
			parts: `{"role": "tool", "content": "x", "tool_call_id": "i"};{"role": "tool", "content": "a\nb", "tool_call_id": "i"};` +
				`{"role": "tool", "content": [{"type": "text", "text": "a"}, {"type": "tool_reference", "name": "t"}]};`,
		},
		{
			name:  "developer",
			in:    `[{"role":"developer","content":"x"},{"role":"developer","content":"x","tools":[1]}]`,
			str:   `{"role": "developer", "content": "x", "tools": null};{"role": "developer", "content": "x", "tools": [1]};`,
			parts: `{"role": "developer", "content": [{"type": "text", "text": "x"}], "tools": null};{"role": "developer", "content": [{"type": "text", "text": "x"}], "tools": [1]};`,
		},
	}
	asString, asParts := compile(t, dumpString, chat.Options{}), compile(t, dumpParts, chat.Options{})
	if asString.ContentFormat() != chat.FormatString || asParts.ContentFormat() != chat.FormatOpenAI {
		t.Fatalf("formats = %v, %v", asString.ContentFormat(), asParts.ContentFormat())
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.partsSameText {
				tt.parts = strings.ReplaceAll(tt.str, `"content": "x"`, `"content": [{"type": "text", "text": "x"}]`)
			}
			for tmpl, want := range map[*chat.Template]string{asString: tt.str, asParts: tt.parts} {
				got, info, err := tmpl.AppendInfo(nil, chat.Input{Messages: []byte(tt.in)})
				if err != nil || string(got) != want {
					t.Errorf("%v: %v\n got %s\nwant %s", tmpl.ContentFormat(), err, got, want)
				}
				if info.Approximate != tt.approximate {
					t.Errorf("%v: Approximate = %v, want %v", tmpl.ContentFormat(), info.Approximate, tt.approximate)
				}
			}
		})
	}
}

func TestPreprocessTools(t *testing.T) {
	tmpl := compile(t, "{{ tools | tojson }}", chat.Options{})
	tests := []struct{ name, in, want string }{
		{"order", `[{"function":{"parameters":{"z":1,"a":2},"name":"f","description":"d"},"type":"function"}]`,
			`[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"z": 1, "a": 2}}}]`},
		{"missing fields", `[{"function":{"name":"f"}}]`, `[{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}]`},
		{"more fields", `[{"x":1,"type":"function","function":{"strict":true,"name":"f","description":null,"parameters":null}}]`,
			`[{"type": "function", "function": {"name": "f", "description": null, "parameters": null, "strict": true}, "x": 1}]`},
		{"none", ``, `null`},
		{"null", `null`, `null`},
		{"empty", `[]`, `null`},
	}
	for _, tt := range tests {
		got, err := tmpl.Append(nil, chat.Input{Messages: []byte("[]"), Tools: []byte(tt.in)})
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestVariables(t *testing.T) {
	no := false
	msgs := []byte(`[{"role":"user","content":"x"}]`)
	tests := []struct {
		name, source string
		in           chat.Input
		want         string
	}{
		{"tokens", "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}", chat.Input{}, "<s></s>False"},
		{"generation prompt by default", "{{ add_generation_prompt }}", chat.Input{}, "True"},
		{"no generation prompt", "{{ add_generation_prompt }}", chat.Input{AddGenerationPrompt: &no}, "False"},
		{"a field wins over kwargs", "{{ add_generation_prompt }}{{ a }}", chat.Input{Kwargs: []byte(`{"add_generation_prompt":false,"a":{"b":1}}`)}, "True{'b': 1}"},
		{"nothing given", "{{ tools }}{{ documents }}{{ reasoning_effort is defined }}{{ enable_thinking is defined }}", chat.Input{}, "NoneNoneFalseFalse"},
		{"documents", "{{ documents }}", chat.Input{Documents: []byte(`[{"t":1}]`)}, "[{'t': 1}]"},
		{"effort", "{{ reasoning_effort }}{{ enable_thinking }}", chat.Input{ReasoningEffort: "low"}, "lowTrue"},
		{"no effort", "{{ reasoning_effort }}{{ enable_thinking }}", chat.Input{ReasoningEffort: "none"}, "noneFalse"},
		{"effort and kwargs", "{{ reasoning_effort }}{{ enable_thinking }}", chat.Input{ReasoningEffort: "low", Kwargs: []byte(`{"enable_thinking":false,"reasoning_effort":"x"}`)}, "lowFalse"},
		{"clock", "{{ strftime_now('%Y-%m-%d') }}", chat.Input{Now: testNow}, "2026-01-15"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Messages = msgs
			got, err := compile(t, tt.source, chat.Options{BOS: "<s>", EOS: "</s>"}).Append(nil, tt.in)
			if err != nil || string(got) != tt.want {
				t.Errorf("Append = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestContinueFinalMessage(t *testing.T) {
	const (
		plain   = "{% for m in messages %}<{{ m.content }}>{% endfor %}"
		trimmed = "{% for m in messages %}<{{ m.content | trim }}>{% endfor %}"
		parts   = "{% for m in messages %}<{% for c in m.content %}{{ c.text }}{% endfor %}>{% endfor %}"
	)
	tests := []struct{ name, source, messages, want, kind string }{
		{"plain", plain, `[{"role":"user","content":"ab"},{"role":"assistant","content":"ab"}]`, "<ab><ab", ""},
		{"space kept", plain, `[{"role":"assistant","content":"ab "}]`, "<ab ", ""},
		{"space trimmed", trimmed, `[{"role":"assistant","content":"ab "}]`, "<ab", ""},
		{"parts", parts, `[{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, "<ab", ""},
		{"message not rendered", "x", `[{"role":"assistant","content":"ab"}]`, "", "ValueError"},
		{"no messages", plain, `[]`, "", chat.KindInput},
		{"no text", parts, `[{"role":"assistant","content":null}]`, "", chat.KindInput},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := compile(t, tt.source, chat.Options{}).Append([]byte("p"), chat.Input{Messages: []byte(tt.messages), ContinueFinalMessage: true})
			var e *chat.Error
			switch {
			case tt.kind != "" && (!errors.As(err, &e) || e.Kind != tt.kind || string(got) != "p"):
				t.Errorf("Append = %q, %v, want a %s", got, err, tt.kind)
			case tt.kind == "" && (err != nil || string(got) != "p"+tt.want):
				t.Errorf("Append = %q, %v, want %q", got, err, "p"+tt.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	const user = `[{"role":"user","content":"x"}]`
	tests := []struct{ name, source, messages, tools, kwargs, want string }{
		{"raised", "\n{{ raise_exception('no ' ~ messages[0].role) }}", user, "", "", "TemplateError: no user"},
		{"type error", "{{ 'a' + messages }}", user, "", "", `TypeError: can only concatenate str (not "list") to str`},
		{"undefined", "{{ messages[3].role }}", user, "", "", "UndefinedError: list object has no element 3"},
		{"messages", "", `{}`, "", "", "InputError: messages: expected an array"},
		{"message", "", `[1]`, "", "", "InputError: messages[0]: expected an object"},
		{"role", "", `[{}]`, "", "", "InputError: messages[0].role: expected a string"},
		{"content", "", `[{"role":"user","content":1}]`, "", "", "InputError: messages[0].content: expected a string or an array of parts"},
		{"part", "", `[{"role":"user","content":[1]}]`, "", "", "InputError: messages[0].content[0]: expected an object"},
		{"part type", "", `[{"role":"user","content":[{"type":"smell"}]}]`, "", "", `InputError: messages[0].content[0].type: unsupported content part type "smell"`},
		{"part text", "", `[{"role":"user","content":[{"type":"text","text":1}]}]`, "", "", "InputError: messages[0].content[0].text: expected a string"},
		{"tool calls", "", `[{"role":"assistant","tool_calls":1}]`, "", "", "InputError: messages[0].tool_calls: expected an array"},
		{"tool call", "", `[{"role":"assistant","tool_calls":[{"type":"custom"}]}]`, "", "", "InputError: messages[0].tool_calls[0]: expected a call of type function"},
		{"arguments", "", `[{"role":"assistant","tool_calls":[{"function":{"arguments":1}}]}]`, "", "", "InputError: messages[0].tool_calls[0].function.arguments: expected a string with JSON"},
		{"tool", "", user, `[{"type":"retrieval"}]`, "", "InputError: tools[0]: expected a tool of type function"},
		{"tool name", "", user, `[{"function":{}}]`, "", "InputError: tools[0].function.name: expected a string"},
		{"kwargs", "", user, "", `[]`, "InputError: chat_template_kwargs: expected an object"},
		{"kwargs with a template", "", user, "", `{"chat_template":"x"}`, `InputError: chat_template_kwargs: unexpected key "chat_template"`},
		{"lone surrogate", "", `[{"role":"user","content":"\ud800"}]`, "", "", "InputError: messages: invalid escape at byte 27"},
		{"invalid UTF-8", "", "[{\"role\":\"user\",\"content\":\"\xff\"}]", "", "", "InputError: messages: invalid UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := compile(t, tt.source, chat.Options{}).Append([]byte("p"), chat.Input{
				Messages: []byte(tt.messages), Tools: []byte(tt.tools), Kwargs: []byte(tt.kwargs),
			})
			var e *chat.Error
			if !errors.As(err, &e) || e.Kind+": "+e.Message != tt.want || string(got) != "p" {
				t.Errorf("Append = %q, %v, want %s", got, err, tt.want)
			}
			if tt.name == "raised" && e.Line != 2 {
				t.Errorf("Line = %d, want 2", e.Line)
			}
		})
	}
	if _, err := chat.Compile("{% if %}", chat.Options{}); err == nil {
		t.Error("Compile took a template that is not one")
	}
	_, err := compile(t, "{% for i in range(100) %}0123456789{% endfor %}", chat.Options{MaxOutput: 999}).Append(nil, chat.Input{Messages: []byte(user)})
	var e *chat.Error
	if !errors.As(err, &e) || !e.Limited() {
		t.Errorf("error = %v, want a limit", err)
	}
}

// TestConcurrent renders with one template from several goroutines.
func TestConcurrent(t *testing.T) {
	tmpl := compile(t, "{% macro m(x) %}[{{ x.content }}]{% endmacro %}{% for m in messages %}{{ m(m) if false else m.content }}{{ loop.index }}{% endfor %}", chat.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				got, err := tmpl.Append(nil, chat.Input{Messages: []byte(`[{"role":"user","content":"a"},{"role":"user","content":"b"}]`)})
				if err != nil || string(got) != "a1b2" {
					t.Errorf("Append = %q, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
