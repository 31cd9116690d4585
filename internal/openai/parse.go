package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
)

// Parse reads a body. The Request refers to the body's bytes. The error is
// an *Error with status 400.
func Parse(body []byte, kind Kind, lim Limits) (*Request, error) {
	var names [48][]byte
	p := parser{
		scanner: scanner{b: body, lim: lim.filled(), names: names[:0]},
		r:       &Request{Kind: kind, Body: body, N: 1, MaxTokens: -1, maxTokens: -1, maxCompletion: -1},
		at:      -1,
	}
	p.r.Fields = p.r.few[:0]
	if err := p.document(); err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return p.r, nil
}

// A parser gives meaning to the fields of one body.
type parser struct {
	scanner
	r     *Request
	param string // top-level field being read
	at    int    // element of it, or -1
	sub   string // field of that element
}

// path names the place being read, as in messages[3].content.
func (p *parser) path() string {
	s := p.param
	if p.at >= 0 {
		s += "[" + strconv.Itoa(p.at) + "]"
	}
	if p.sub != "" {
		s += "." + p.sub
	}
	return s
}

func (p *parser) refuse(code, expected string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Code: code, Param: p.path(),
		Message: p.path() + ": expected " + expected,
	}
}

func (p *parser) wrongType(expected string) *Error { return p.refuse(CodeInvalidType, expected) }

func (p *parser) document() *Error {
	if bytes.HasPrefix(p.b, []byte("\xef\xbb\xbf")) {
		return p.syntax("no byte order mark")
	}
	if p.peek() != '{' {
		return p.syntax("an object")
	}
	o, err := p.open()
	if err != nil {
		return err
	}
	for {
		name, start, ok, err := p.next(&o)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		f := Field{start: start, value: span{start: p.i}}
		f.Name, f.Control = fieldName(name)
		p.param = f.Name
		if err := p.field(f.Name); err != nil {
			return err
		}
		f.value.end = p.i
		f.Value = p.b[f.value.start:p.i:p.i]
		p.r.Fields = append(p.r.Fields, f)
	}
	p.param = ""
	if p.peek(); p.i != len(p.b) {
		return p.syntax("nothing after the object")
	}
	return nil
}

// field reads the value of one top-level field.
func (p *parser) field(name string) *Error {
	r := p.r
	switch name {
	case "model":
		return p.text(&r.Model)
	case "user": // checked, and the engine's to use
		var user string
		return p.text(&user)
	case "stream":
		return p.flag(&r.Stream)
	case "stream_options":
		return p.streamOptions()
	case "n":
		return p.whole(&r.N, 1, p.lim.N)
	case "max_tokens":
		return p.whole(&r.maxTokens, 0, MaxLimit)
	case "max_completion_tokens":
		if r.Kind == Completion {
			return p.skip() // the engine has no such field there
		}
		return p.whole(&r.maxCompletion, 0, MaxLimit)
	case "stop":
		return p.stop()
	case "echo":
		return p.flag(&r.Echo)
	case "logprobs":
		return p.logprobs()
	case "prompt_logprobs":
		return p.present(&r.PromptLogprobs, "")
	case "return_token_ids":
		return p.flag(&r.ReturnTokenIDs)
	case "truncate_prompt_tokens":
		return p.present(&r.Truncate, "")
	case "add_special_tokens":
		return p.optionalFlag(&r.AddSpecialTokens)
	case "prompt":
		if r.Kind == Completion {
			return p.prompt()
		}
	case "prompt_embeds":
		return p.present(&r.PromptEmbeds, "")
	default:
		if r.Kind == Chat {
			return p.chatField(name)
		}
	}
	return p.skip()
}

// chatField reads the fields that only chat requests have.
func (p *parser) chatField(name string) *Error {
	r := p.r
	switch name {
	case "messages":
		return p.messages()
	case "tools":
		return p.tools()
	case "tool_choice":
		return p.raw(&r.ToolChoice, `"{`, "a string or an object")
	case "chat_template_kwargs":
		return p.raw(&r.Kwargs, "{", "an object")
	case "documents":
		return p.raw(&r.Documents, "[", "an array")
	case "reasoning_effort":
		return p.raw(&r.Effort, `"`, "a string")
	case "chat_template":
		return p.present(&r.ChatTemplate, `"`)
	case "add_generation_prompt":
		return p.optionalFlag(&r.AddGenerationPrompt)
	case "continue_final_message":
		return p.flag(&r.ContinueFinalMessage)
	}
	return p.skip()
}

// finish checks what depends on several fields.
func (p *parser) finish() *Error {
	r := p.r
	switch {
	case r.Kind == Chat && r.Messages == nil:
		p.param = "messages"
		return p.refuse(CodeMissing, "an array with at least one message")
	case r.Kind == Completion && r.Prompts == nil && !r.PromptEmbeds:
		p.param = "prompt"
		return p.refuse(CodeMissing, "a string, an array of strings, an array of token ids or an array of such arrays")
	}
	for _, m := range []struct {
		name  string
		value int
	}{{"max_tokens", r.maxTokens}, {"max_completion_tokens", r.maxCompletion}} {
		if m.value < 0 {
			continue
		}
		// With echo a completion request may generate nothing at all.
		if m.value == 0 && (r.Kind == Chat || !r.Echo) {
			p.param = m.name
			return p.refuse(CodeInvalidValue, wholeFrom1(MaxLimit))
		}
		r.MaxTokens, r.MaxField = m.value, m.name
	}
	return nil
}

// null skips a null and reports whether there was one.
func (p *parser) null() (bool, *Error) {
	if p.peek() != 'n' {
		return false, nil
	}
	return true, p.literal("null")
}

// text reads a string or null.
func (p *parser) text(dst *string) *Error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	if p.peek() != '"' {
		return p.wrongType("a string")
	}
	raw, escaped, err := p.str()
	if err != nil {
		return err
	}
	*dst = p.decoded(raw, escaped)
	return nil
}

func (p *parser) decoded(raw span, escaped bool) string {
	b := p.b[raw.start:raw.end]
	if !escaped {
		return string(b)
	}
	return string(appendUnescaped(make([]byte, 0, len(b)), b))
}

// scalar reads a number, a string or a boolean in lax mode as an int64;
// ok is false if it is none. The value itself must be valid JSON.
func (p *parser) scalar() (v int64, ok bool, err *Error) {
	switch c := p.peek(); {
	case c == '-' || c >= '0' && c <= '9':
		lit, integer, err := p.number()
		if err != nil {
			return 0, false, err
		}
		if b := p.b[lit.start:lit.end]; !integer {
			v, ok = laxFloat(b)
		} else if v, ok = laxInteger(b); !ok {
			v, ok = math.MaxInt64, b[0] != '-' // too long, but whole
		}
		return v, ok, nil
	case c == '"':
		raw, escaped, err := p.str()
		if err != nil {
			return 0, false, err
		}
		text := p.b[raw.start:raw.end]
		if escaped {
			text = appendUnescaped(nil, text)
		}
		v, ok = laxText(text)
		return v, ok, nil
	case c == 't':
		return 1, true, p.literal("true")
	case c == 'f':
		return 0, true, p.literal("false")
	default:
		return 0, false, p.skip()
	}
}

func laxInteger(lit []byte) (int64, bool) {
	if len(lit) > 20 {
		return 0, false
	}
	v, err := strconv.ParseInt(string(lit), 10, 64)
	return v, err == nil
}

// whole reads an integer from low to high, or null.
func (p *parser) whole(dst *int, low, high int) *Error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	v, ok, err := p.scalar()
	if err != nil {
		return err
	}
	if !ok {
		return p.wrongType(wholeFrom1(high))
	}
	if v < int64(low) || v > int64(high) {
		return p.refuse(CodeInvalidValue, wholeFrom1(high))
	}
	*dst = int(v)
	return nil
}

func wholeFrom1(high int) string { return "a whole number from 1 to " + strconv.Itoa(high) }

// flag reads a boolean or null.
func (p *parser) flag(dst *bool) *Error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	if p.peek() == '"' {
		raw, escaped, err := p.str()
		if err != nil {
			return err
		}
		v, ok := laxWord([]byte(p.decoded(raw, escaped)))
		if !ok {
			return p.wrongType("true or false")
		}
		*dst = v
		return nil
	}
	v, ok, err := p.scalar()
	if err != nil {
		return err
	}
	if !ok || v < 0 || v > 1 {
		return p.wrongType("true or false")
	}
	*dst = v == 1
	return nil
}

func (p *parser) optionalFlag(dst **bool) *Error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	v := new(bool)
	*dst = v
	return p.flag(v)
}

// present notes whether the value is not null. If kind is not empty, the
// value must start with one of its bytes.
func (p *parser) present(dst *bool, kind string) *Error {
	var v json.RawMessage
	err := p.raw(&v, kind, "a string")
	*dst = v != nil
	return err
}

// raw keeps the bytes of a value that starts with one of kind, or null. An
// empty kind allows any value.
func (p *parser) raw(dst *json.RawMessage, kind, expected string) *Error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	c, start := p.peek(), p.i
	if err := p.skip(); err != nil {
		return err
	}
	if kind != "" && !bytes.ContainsRune([]byte(kind), rune(c)) {
		return p.wrongType(expected)
	}
	*dst = json.RawMessage(p.b[start:p.i:p.i])
	return nil
}
