package chat_test

import (
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/chat"
)

const fuzzTemplate = `{%- macro part(c) -%}{%- if c is string -%}{{ c }}{%- else -%}{%- for p in c -%}{{ p.text }}{%- endfor -%}{%- endif -%}{%- endmacro -%}
{%- for t in tools or [] %}{{ t.function.name ~ (t | tojson) }}{% endfor -%}
{%- for m in messages %}<{{ m.role }}>{{ part(m.content) }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}
{%- if m.reasoning_content %}[{{ m.reasoning_content | trim }}]{% endif %}</>{% endfor -%}
{%- if add_generation_prompt %}<assistant>{% endif %}`

// FuzzAppend feeds arbitrary requests to a template and to harmony: no panic,
// only typed errors, dst is kept, valid text, and spans that tile the text.
func FuzzAppend(f *testing.F) {
	f.Add(`[{"role":"user","content":"a"}]`, `[{"function":{"name":"f","parameters":{"oneOf":[{}]}}}]`, `{"a":1}`, false)
	f.Add(`[{"role":"assistant","content":[{"type":"text","text":"é"},{"type":"image_url"}],"tool_calls":[{"id":"i","function":{"name":"f","arguments":"{}"}}]}]`, ``, ``, true)
	f.Add(`[{"role":"tool","tool_call_id":"i","content":[{"type":"text","text":"x"}]}]`, `null`, `null`, true)
	tmpl := compile(f, fuzzTemplate, chat.Options{MaxOutput: 1 << 20, MaxSteps: 1 << 20})
	f.Fuzz(func(t *testing.T, messages, tools, kwargs string, open bool) {
		in := chat.Input{
			Messages: []byte(messages), Tools: []byte(tools), Kwargs: []byte(kwargs),
			ContinueFinalMessage: open, Now: testNow,
		}
		checkOutput(t, func() ([]byte, error) { return tmpl.Append([]byte("p"), in) })
		in.Preprocessed = true
		checkOutput(t, func() ([]byte, error) { return tmpl.Append([]byte("p"), in) })
		var spans []chat.Span
		out := checkOutput(t, func() (out []byte, err error) {
			out, spans, _, err = new(chat.Harmony).AppendSpans([]byte("p"), nil, in)
			return out, err
		})
		at := 1
		for _, s := range spans {
			if s.Start < at || s.End <= s.Start || s.End > len(out) {
				t.Fatalf("span %v after byte %d of %d", s, at, len(out))
			}
			at = s.End
		}
	})
}

func checkOutput(t *testing.T, render func() ([]byte, error)) []byte {
	t.Helper()
	out, err := render()
	if err != nil {
		var e *chat.Error
		if !errors.As(err, &e) || e.Message == "" || string(out) != "p" {
			t.Fatalf("%q, error %T: %v", out, err, err)
		}
		return nil
	}
	if len(out) < 1 || out[0] != 'p' || !utf8.Valid(out) {
		t.Fatalf("output %q", out)
	}
	return out
}
