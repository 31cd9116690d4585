package chat

import (
	"strings"

	"github.com/expediterhq/expediter/internal/jinja"
)

// preprocess does to a conversation what vLLM does before it renders: it keeps
// the fields of a message that a template may see, joins or wraps content
// parts, decodes tool-call arguments, and gives tools their fixed field order.
func (c *conversation) preprocess(format ContentFormat) error {
	out := c.slab.Values(len(c.messages))
	for i, v := range c.messages {
		m := v.Map()
		if m == nil {
			return inputErr("messages[%d]: expected an object", i)
		}
		p := messageParser{c: c, format: format, at: i}
		msg, err := p.message(m)
		if err != nil {
			return err
		}
		out[i] = msg
	}
	c.messages = out
	return c.orderTools()
}

// messageParser rewrites one message.
type messageParser struct {
	c      *conversation
	format ContentFormat
	at     int
}

func (p *messageParser) errorf(format string, args ...any) error {
	return inputErr("messages[%d]"+format, append([]any{p.at}, args...)...)
}

func (p *messageParser) message(m *jinja.Map) (jinja.Value, error) {
	none := jinja.Value{}
	roleValue, _ := m.Get("role")
	role := roleValue.Str()
	if roleValue.Kind() != jinja.String {
		return none, p.errorf(".role: expected a string")
	}
	content, err := p.content(m, role)
	if err != nil {
		return none, err
	}
	out := p.c.slab.NewMap(6)
	out.Set("role", roleValue)
	out.Set("content", content)
	switch role {
	case "assistant":
		if err := p.assistant(m, out); err != nil {
			return none, err
		}
	case "tool":
		if id, ok := m.Get("tool_call_id"); ok {
			out.Set("tool_call_id", id)
		}
	}
	for _, key := range []string{"name", "task"} {
		if v, ok := m.Get(key); ok && v.Kind() == jinja.String {
			out.Set(key, v)
		}
	}
	if role == "developer" {
		tools, ok := m.Get("tools")
		if !ok {
			tools = jinja.Nil()
		}
		out.Set("tools", tools)
	}
	return jinja.FromDict(out), nil
}

// assistant adds the tool calls and the reasoning of an assistant message.
func (p *messageParser) assistant(m, out *jinja.Map) error {
	if calls, ok := m.Get("tool_calls"); ok && calls.Kind() != jinja.None {
		if calls.Kind() != jinja.List {
			return p.errorf(".tool_calls: expected an array")
		}
		if len(calls.Items()) > 0 {
			list := p.c.slab.Values(len(calls.Items()))
			for i, call := range calls.Items() {
				v, err := p.toolCall(i, call)
				if err != nil {
					return err
				}
				list[i] = v
			}
			out.Set("tool_calls", p.c.slab.List(list))
		}
	}
	r, ok := m.Get("reasoning")
	if !ok || r.Kind() == jinja.None {
		r, ok = m.Get("reasoning_content")
	}
	if ok && r.Kind() != jinja.None {
		out.Set("reasoning", r)
		out.Set("reasoning_content", r)
	}
	return nil
}

// toolCall orders the fields of a tool call as id, function{arguments, name},
// type, and decodes its arguments.
func (p *messageParser) toolCall(i int, call jinja.Value) (jinja.Value, error) {
	src := call.Map()
	if src == nil {
		return call, p.errorf(".tool_calls[%d]: expected an object", i)
	}
	fn, _ := src.Get("function")
	typ, hasType := src.Get("type")
	if fn.Map() == nil || hasType && typ.Str() != "function" {
		return call, p.errorf(".tool_calls[%d]: expected a call of type function", i)
	}
	raw, _ := fn.Map().Get("arguments")
	a, err := p.c.arguments(raw)
	if err != nil {
		return call, p.errorf(".tool_calls[%d].function.arguments: %s", i, message(err))
	}
	f := p.c.slab.NewMap(2)
	f.Set("arguments", a)
	copyFields(f, fn.Map(), "name")
	out := p.c.slab.NewMap(3)
	copyFields(out, src, "id")
	out.Set("function", jinja.FromDict(f))
	copyFields(out, src, "type")
	copyRest(f, fn.Map())
	copyRest(out, src)
	return jinja.FromDict(out), nil
}

// copyFields copies the named fields that src has.
func copyFields(dst, src *jinja.Map, names ...string) {
	for _, n := range names {
		if v, ok := src.Get(n); ok {
			dst.Set(n, v)
		}
	}
}

// copyRest appends the fields of src that dst does not have yet.
func copyRest(dst, src *jinja.Map) {
	for _, e := range src.Entries() {
		if _, ok := dst.Get(e.Key.Str()); !ok {
			dst.Set(e.Key.Str(), e.Val)
		}
	}
}

// malformed is the key under which the template gets arguments that are not
// JSON.
const malformed = "__vllm_malformed_json__"

// arguments decodes the arguments of a tool call, which OpenAI sends as a JSON
// string. None, an empty string and null become an empty object.
func (c *conversation) arguments(v jinja.Value) (jinja.Value, error) {
	empty := jinja.FromDict(c.slab.NewMap(0))
	switch v.Kind() {
	case jinja.Missing, jinja.None:
		return empty, nil
	case jinja.Dict, jinja.List:
		if len(v.Items()) == 0 && (v.Map() == nil || v.Map().Len() == 0) {
			return empty, nil
		}
		return v, nil
	case jinja.String:
	default:
		return v, inputErr("expected a string with JSON")
	}
	if v.Str() == "" {
		return empty, nil
	}
	parsed, err := c.slab.DecodeString(v.Str())
	switch {
	case err != nil:
		m := c.slab.NewMap(1)
		m.Set(malformed, v)
		return jinja.FromDict(m), nil
	case parsed.Kind() == jinja.None:
		return empty, nil
	}
	return parsed, nil
}

// content returns the content of a message in the template's format.
func (p *messageParser) content(m *jinja.Map, role string) (jinja.Value, error) {
	v, _ := m.Get("content")
	var parts []jinja.Value
	switch v.Kind() {
	case jinja.String:
		if p.format == FormatString || role == "tool" {
			return v, nil
		}
		one := p.c.slab.Values(1)
		one[0] = p.c.textPart(v)
		return p.c.slab.List(one), nil
	case jinja.List:
		parts = v.Items()
	case jinja.Missing, jinja.None:
	default:
		return v, p.errorf(".content: expected a string or an array of parts")
	}
	out := p.c.slab.Values(len(parts))[:0]
	onlyText := true
	for i, part := range parts {
		text, other, err := p.part(i, part)
		switch {
		case err != nil:
			return v, err
		case other.Kind() == jinja.Dict:
			onlyText = false
			if p.format == FormatOpenAI {
				out = append(out, other)
			} else if name, ok := other.Map().Get("name"); ok {
				out = append(out, name)
			}
		case text.Kind() == jinja.String:
			out = append(out, text)
		}
	}
	if p.format == FormatString || role == "tool" && onlyText {
		return join(out), nil
	}
	for i, x := range out {
		if x.Kind() == jinja.String {
			out[i] = p.c.textPart(x)
		}
	}
	return p.c.slab.List(out), nil
}

func (c *conversation) textPart(text jinja.Value) jinja.Value {
	m := c.slab.NewMap(2)
	m.Set("type", jinja.FromString("text"))
	m.Set("text", text)
	return jinja.FromDict(m)
}

// join joins texts with newlines.
func join(texts []jinja.Value) jinja.Value {
	if len(texts) == 1 {
		return texts[0]
	}
	s := make([]string, len(texts))
	for i, t := range texts {
		s[i] = t.Str()
	}
	return jinja.FromString(strings.Join(s, "\n"))
}

// part returns the text of a content part; or, for a part that is not text,
// the object that stands for it in a template. Both are Missing for a text
// part without text.
func (p *messageParser) part(i int, part jinja.Value) (text, other jinja.Value, err error) {
	none := jinja.Value{}
	if part.Kind() == jinja.String {
		return part, none, nil
	}
	m := part.Map()
	if m == nil {
		return none, none, p.errorf(".content[%d]: expected an object", i)
	}
	typ, key := partType(m)
	switch typ {
	case "text", "input_text", "output_text", "refusal", "thinking":
		v, _ := m.Get(key)
		switch v.Kind() {
		case jinja.String:
			return v, none, nil
		case jinja.None, jinja.Missing:
			return none, none, nil
		}
		return none, none, p.errorf(".content[%d].%s: expected a string", i, key)
	case "image", "audio", "video":
		p.c.info.Approximate = true
		out := p.c.slab.NewMap(1)
		out.Set("type", jinja.FromString(typ))
		return none, jinja.FromDict(out), nil
	case "tool_reference":
		out := p.c.slab.NewMap(2)
		out.Set("type", jinja.FromString(typ))
		copyFields(out, m, "name")
		return none, jinja.FromDict(out), nil
	case "prompt_embeds":
		return none, none, p.errorf(".content[%d]: parts of type prompt_embeds are not supported", i)
	}
	return none, none, p.errorf(".content[%d].type: unsupported content part type %q", i, typ)
}

// partType returns what a part is: a text type and the field that has the
// text, or a modality. A part without a type is known by its fields.
func partType(m *jinja.Map) (typ, key string) {
	v, ok := m.Get("type")
	uuid, hasUUID := m.Get("uuid")
	if ok && v.Kind() != jinja.None && (!hasUUID || uuid.Kind() == jinja.None) {
		typ = v.Str()
	} else {
		for _, e := range m.Entries() {
			if modality(e.Key.Str()) != "" {
				typ = e.Key.Str()
				break
			}
		}
		if typ == "" {
			typ = v.Str()
		}
	}
	switch typ {
	case "text", "input_text", "output_text":
		return typ, "text"
	case "refusal", "thinking":
		return typ, typ
	}
	if mod := modality(typ); mod != "" {
		return mod, ""
	}
	return typ, ""
}

func modality(typ string) string {
	switch typ {
	case "image_url", "input_image", "image_embeds", "image_pil":
		return "image"
	case "audio_url", "input_audio", "audio_embeds":
		return "audio"
	case "video_url":
		return "video"
	}
	return ""
}

// orderTools gives every tool the fields type and function, and every function
// the fields name, description and parameters, in this order and null if
// missing. Other fields follow in their own order.
func (c *conversation) orderTools() error {
	if c.ordered {
		return nil
	}
	if len(c.tools.Items()) == 0 {
		c.tools = jinja.Nil()
		return nil
	}
	out := c.slab.Values(len(c.tools.Items()))
	for i, t := range c.tools.Items() {
		src := t.Map()
		if src == nil {
			return inputErr("tools[%d]: expected an object", i)
		}
		typ, ok := src.Get("type")
		if !ok {
			typ = jinja.FromString("function")
		}
		fn, _ := src.Get("function")
		if typ.Str() != "function" || fn.Map() == nil {
			return inputErr("tools[%d]: expected a tool of type function", i)
		}
		name, _ := fn.Map().Get("name")
		if name.Kind() != jinja.String {
			return inputErr("tools[%d].function.name: expected a string", i)
		}
		f := c.slab.NewMap(3)
		f.Set("name", name)
		for _, key := range []string{"description", "parameters"} {
			v, ok := fn.Map().Get(key)
			if !ok {
				v = jinja.Nil()
			}
			f.Set(key, v)
		}
		copyRest(f, fn.Map())
		tool := c.slab.NewMap(2)
		tool.Set("type", typ)
		tool.Set("function", jinja.FromDict(f))
		copyRest(tool, src)
		out[i] = jinja.FromDict(tool)
	}
	c.tools = c.slab.List(out)
	return nil
}
