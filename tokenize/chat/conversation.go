package chat

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"github.com/expediterhq/expediter/internal/jinja"
)

// conversation is a decoded Input.
type conversation struct {
	messages  []jinja.Value
	tools     jinja.Value // list or None
	documents jinja.Value
	kwargs    *jinja.Map // may be nil
	effort    string
	info      Info
	slab      jinja.Slab

	cache   *toolCache // nil if not to be used
	ordered bool       // tools come from the cache

	addGeneration bool
	keepOpen      bool // continue the final message
}

// conversations keeps the memory of finished conversations for later ones.
var conversations = sync.Pool{New: func() any { return new(conversation) }}

func newConversation() *conversation { return conversations.Get().(*conversation) }

// release gives the memory of c back. No value of it may be used afterwards.
func (c *conversation) release() {
	c.slab.Reset()
	*c = conversation{slab: c.slab}
	conversations.Put(c)
}

// decode reads the JSON of an Input.
func (c *conversation) decode(in *Input) error {
	c.addGeneration = in.AddGenerationPrompt == nil || *in.AddGenerationPrompt
	c.keepOpen = in.ContinueFinalMessage
	msgs, err := c.field("messages", in.Messages, jinja.List)
	if err != nil {
		return err
	}
	c.messages = msgs.Items()
	if c.cache != nil {
		c.tools, c.ordered = c.cache.find(in.Tools)
	}
	if !c.ordered {
		if c.tools, err = c.field("tools", in.Tools, jinja.List); err != nil {
			return err
		}
	}
	if c.documents, err = c.field("documents", in.Documents, jinja.List); err != nil {
		return err
	}
	kw, err := c.field("chat_template_kwargs", in.Kwargs, jinja.Dict)
	if err != nil {
		return err
	}
	c.kwargs, c.effort = kw.Map(), in.ReasoningEffort
	if c.kwargs != nil {
		for _, key := range []string{"chat_template", "tokenize"} {
			if _, ok := c.kwargs.Get(key); ok {
				return inputErr("chat_template_kwargs: unexpected key %q", key)
			}
		}
	}
	return nil
}

// field decodes one field, which may be absent or null.
func (c *conversation) field(name string, raw json.RawMessage, want jinja.Kind) (jinja.Value, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return jinja.Nil(), nil
	}
	v, err := c.slab.Decode(raw)
	if err != nil {
		return v, inputErr("%s: %s", name, message(err))
	}
	if v.Kind() != want && v.Kind() != jinja.None {
		return v, inputErr("%s: expected %s", name, map[jinja.Kind]string{jinja.List: "an array", jinja.Dict: "an object"}[want])
	}
	return v, nil
}

// vars returns the variables of the template. Fields of the request itself
// come after its kwargs and win.
func (c *conversation) vars(o Options) []jinja.Var {
	vars := make([]jinja.Var, 0, 10)
	add := func(name string, v jinja.Value) { vars = append(vars, jinja.Var{Name: name, Value: v}) }
	if o.BOS != "" {
		add("bos_token", jinja.FromString(o.BOS))
	}
	if o.EOS != "" {
		add("eos_token", jinja.FromString(o.EOS))
	}
	if c.effort != "" {
		add("enable_thinking", jinja.FromBool(c.effort != "none"))
	}
	add("documents", c.documents)
	if c.kwargs != nil {
		for _, e := range c.kwargs.Entries() {
			add(e.Key.Str(), e.Val)
		}
	}
	if c.effort != "" {
		add("reasoning_effort", jinja.FromString(c.effort))
	}
	if c.documents.Kind() != jinja.None {
		add("documents", c.documents)
	}
	add("messages", jinja.FromList(c.messages))
	add("tools", c.tools)
	add("add_generation_prompt", jinja.FromBool(c.addGeneration))
	return vars
}

// openTag is put at the end of the message to be continued; the text is cut
// where the template wrote it.
const openTag = "CONTINUE_FINAL_MESSAGE_TAG "

const cannotContinue = "continue_final_message is set but the final message does not appear in the chat after applying the chat template"

// openFinal marks the end of the last message and returns its text.
func (c *conversation) openFinal() (string, error) {
	if len(c.messages) == 0 {
		return "", inputErr("continue_final_message is set but there are no messages")
	}
	n := len(c.messages) - 1
	m := c.messages[n].Map()
	if m == nil {
		return "", inputErr("messages[%d]: expected an object", n)
	}
	content, _ := m.Get("content")
	text := content.Str()
	switch content.Kind() {
	case jinja.String:
		content = jinja.FromString(text + openTag)
	case jinja.List:
		var err error
		if content, text, err = openParts(content.Items()); err != nil {
			return "", err
		}
	default:
		return "", &Error{Kind: "TypeError", Message: "continue_final_message needs a final message with text content"}
	}
	c.messages = append([]jinja.Value(nil), c.messages...)
	c.messages[n] = with(m, "content", content)
	return text, nil
}

// openParts marks the end of the last text part.
func openParts(parts []jinja.Value) (jinja.Value, string, error) {
	out := append([]jinja.Value(nil), parts...)
	for i := len(out) - 1; i >= 0; i-- {
		p := out[i].Map()
		if p == nil {
			continue
		}
		if text, ok := p.Get("text"); ok && text.Kind() == jinja.String {
			out[i] = with(p, "text", jinja.FromString(text.Str()+openTag))
			return jinja.FromList(out), text.Str(), nil
		}
	}
	return jinja.Value{}, "", inputErr("continue_final_message is set but the final message has no text")
}

// with returns a copy of m in which key has another value.
func with(m *jinja.Map, key string, v jinja.Value) jinja.Value {
	out := m.Clone()
	out.Set(key, v)
	return jinja.FromDict(out)
}

// cutOpen cuts the text after the message that is to be continued. from is
// where the rendered text starts in out.
func cutOpen(out []byte, from int, final string) ([]byte, error) {
	text := out[from:]
	tag := strings.TrimSpace(openTag)
	i := bytes.LastIndex(text, []byte(tag))
	if i < 0 || !bytes.Contains(text, []byte(strings.TrimSpace(final))) {
		return out[:from], &Error{Kind: "ValueError", Message: cannotContinue}
	}
	if bytes.HasPrefix(text[i:], []byte(openTag)) { // the template keeps white space
		return out[:from+i], nil
	}
	return out[:from+len(bytes.TrimRight(text[:i], " \t\n\r\v\f"))], nil
}
