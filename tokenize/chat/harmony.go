package chat

import (
	"strings"
	"time"

	"github.com/expediterhq/expediter/internal/jinja"
)

// Harmony renders conversations in the harmony format of the gpt-oss models,
// for which vLLM does not use the chat template of the model. The zero value
// is what vLLM does by default. A Harmony is safe for concurrent use as long
// as its fields do not change.
//
// The text has a system message with the date, a developer message with the
// tools as a TypeScript namespace if there are any, the messages of the
// request with their channels, and the start of the assistant's turn.
// AddGenerationPrompt, ContinueFinalMessage, Documents, Kwargs and
// Preprocessed of the Input have no effect; Messages and Tools are in the form
// of the request.
//
// It differs from the chat template that is published with the models: tool
// results are written as they are and not as JSON strings; system and
// developer messages stay where they are and are not made instructions; text
// beside tool calls goes to the commentary channel; parallel tool calls are
// all kept; reasoning is kept until the answer that it led to; and a default
// in a tool's parameters is not followed by a second comma.
type Harmony struct {
	Identity string // first line of the system message. If empty, the one of the format.
	Cutoff   string // knowledge cutoff. If empty, "2024-06".

	// Date is the date in the system message, as YYYY-MM-DD. If empty, the
	// date of Input.Now. It corresponds to VLLM_SYSTEM_START_DATE.
	Date string
}

// Span is a piece of rendered text, from byte Start up to byte End.
type Span struct{ Start, End int }

// Append appends the rendered conversation to dst. On error, which is an
// *Error, it returns dst unchanged.
func (h *Harmony) Append(dst []byte, in Input) ([]byte, error) {
	out, _, _, err := h.AppendSpans(dst, nil, in)
	return out, err
}

// AppendSpans is Append that also appends to spans the pieces of the text that
// the engine encodes as ordinary text, even where they spell a special token.
// Everything between two spans is one special token. Offsets count from the
// start of the returned slice.
func (h *Harmony) AppendSpans(dst []byte, spans []Span, in Input) ([]byte, []Span, Info, error) {
	in.Kwargs, in.Documents = nil, nil
	c := newConversation()
	defer c.release()
	if err := c.decode(&in); err != nil {
		return dst, spans, Info{}, wrap(err)
	}
	if err := c.orderTools(); err != nil {
		return dst, spans, Info{}, err
	}
	p := harmonyParser{c: c}
	if err := p.messages(); err != nil {
		return dst, spans, c.info, err
	}
	w := harmonyWriter{out: dst, spans: spans}
	if err := h.system(&w, c, in.Now); err != nil {
		return dst, spans, c.info, err
	}
	if tools := c.tools.Items(); len(tools) > 0 {
		w.token("<|start|>")
		w.text("developer")
		w.token("<|message|>")
		w.text(toolsSection(tools))
		w.token("<|end|>")
	}
	for _, m := range dropAnalysis(dropBeforeFinal(p.out)) {
		w.message(m)
	}
	w.token("<|start|>")
	w.text("assistant")
	return w.out, w.spans, c.info, nil
}

// system writes the system message.
func (h *Harmony) system(w *harmonyWriter, c *conversation, now time.Time) error {
	effort := c.effort
	switch effort {
	case "":
		effort = "medium"
	case "low", "medium", "high":
	default:
		return inputErr("reasoning_effort: harmony has low, medium and high, not %q", effort)
	}
	or := func(s, def string) string {
		if s == "" {
			return def
		}
		return s
	}
	if now.IsZero() {
		now = time.Now()
	}
	var b strings.Builder
	b.WriteString(or(h.Identity, "You are ChatGPT, a large language model trained by OpenAI."))
	b.WriteString("\nKnowledge cutoff: " + or(h.Cutoff, "2024-06"))
	b.WriteString("\nCurrent date: " + or(h.Date, now.Format("2006-01-02")))
	b.WriteString("\n\nReasoning: " + effort)
	b.WriteString("\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.")
	if len(c.tools.Items()) > 0 {
		b.WriteString("\nCalls to these tools must go to the commentary channel: 'functions'.")
	}
	w.token("<|start|>")
	w.text("system")
	w.token("<|message|>")
	w.text(b.String())
	w.token("<|end|>")
	return nil
}

// harmonyMessage is one message of the format.
type harmonyMessage struct {
	role      string // of the author, or the author's name for a tool
	recipient string
	channel   string
	format    string // content type
	texts     []string
}

// harmonyWriter writes messages and notes which bytes are text.
type harmonyWriter struct {
	out   []byte
	spans []Span
}

func (w *harmonyWriter) token(s string) { w.out = append(w.out, s...) }

func (w *harmonyWriter) text(s string) {
	if s == "" {
		return
	}
	w.spans = append(w.spans, Span{len(w.out), len(w.out) + len(s)})
	w.out = append(w.out, s...)
}

func (w *harmonyWriter) message(m harmonyMessage) {
	w.token("<|start|>")
	w.text(m.role)
	if m.recipient != "" {
		w.text(" to=" + m.recipient)
	}
	if m.channel != "" {
		w.token("<|channel|>")
		w.text(m.channel)
	}
	if m.format != "" {
		w.text(" " + m.format)
	}
	w.token("<|message|>")
	for _, t := range m.texts {
		w.text(t)
	}
	if m.role == "assistant" && m.recipient != "" {
		w.token("<|call|>")
	} else {
		w.token("<|end|>")
	}
}

// dropBeforeFinal drops the reasoning of the current turn, which starts after
// the last user message, that led to the last final answer in it.
func dropBeforeFinal(msgs []harmonyMessage) []harmonyMessage {
	start := 0
	for i, m := range msgs {
		if m.role == "user" {
			start = i + 1
		}
	}
	last := -1
	for i := start; i < len(msgs); i++ {
		if msgs[i].role == "assistant" && msgs[i].channel == "final" {
			last = i
		}
	}
	out := make([]harmonyMessage, 0, len(msgs))
	for i, m := range msgs {
		if m.channel != "analysis" || i < start || i >= last {
			out = append(out, m)
		}
	}
	return out
}

// dropAnalysis drops the reasoning before the first final answer if the last
// message of the assistant is a final answer.
func dropAnalysis(msgs []harmonyMessage) []harmonyMessage {
	first, lastIsFinal := -1, false
	for i, m := range msgs {
		if m.role != "assistant" {
			continue
		}
		lastIsFinal = m.channel == "final"
		if lastIsFinal && first < 0 {
			first = i
		}
	}
	if !lastIsFinal {
		return msgs
	}
	out := make([]harmonyMessage, 0, len(msgs))
	for i, m := range msgs {
		if m.channel != "analysis" || i >= first {
			out = append(out, m)
		}
	}
	return out
}

// harmonyParser turns the messages of a request into messages of the format.
type harmonyParser struct {
	c     *conversation
	names map[string]string // of called functions, by call id
	out   []harmonyMessage
}

func (p *harmonyParser) messages() error {
	p.names = map[string]string{}
	for i, v := range p.c.messages {
		m := v.Map()
		if m == nil {
			return inputErr("messages[%d]: expected an object", i)
		}
		calls, _ := m.Get("tool_calls")
		for j, call := range calls.Items() {
			name, id, err := callName(call)
			if err != nil {
				return inputErr("messages[%d].tool_calls[%d]: %s", i, j, message(err))
			}
			p.names[id] = name
		}
	}
	for i, v := range p.c.messages {
		if err := p.message(i, v.Map()); err != nil {
			return err
		}
	}
	return nil
}

func callName(call jinja.Value) (name, id string, err error) {
	m := call.Map()
	if m == nil {
		return "", "", inputErr("expected an object")
	}
	fn, _ := m.Get("function")
	if fn.Map() == nil {
		return "", "", inputErr("expected a call of type function")
	}
	n, _ := fn.Map().Get("name")
	i, _ := m.Get("id")
	return n.Str(), i.Str(), nil
}

func (p *harmonyParser) add(m harmonyMessage) { p.out = append(p.out, m) }

func (p *harmonyParser) message(i int, m *jinja.Map) error {
	role, _ := m.Get("role")
	texts, err := p.texts(i, m)
	if err != nil {
		return err
	}
	switch role.Str() {
	case "user", "system", "developer":
		p.add(harmonyMessage{role: role.Str(), texts: texts})
	case "tool":
		id, _ := m.Get("tool_call_id")
		p.add(harmonyMessage{role: "functions." + p.names[id.Str()], recipient: "assistant", channel: "commentary", texts: texts})
	case "assistant":
		return p.assistant(i, m, texts)
	default:
		return inputErr("messages[%d].role: harmony has no role %q", i, role.Str())
	}
	return nil
}

func (p *harmonyParser) assistant(i int, m *jinja.Map, texts []string) error {
	reasoning, _ := m.Get("reasoning")
	if reasoning.Str() == "" {
		reasoning, _ = m.Get("reasoning_content")
	}
	think := func() {
		if r := reasoning.Str(); r != "" {
			p.add(harmonyMessage{role: "assistant", channel: "analysis", texts: []string{r}})
		}
	}
	calls, _ := m.Get("tool_calls")
	if len(calls.Items()) == 0 {
		think()
		if len(texts) > 0 && texts[0] != "" {
			p.add(harmonyMessage{role: "assistant", channel: "final", texts: texts})
		}
		return nil
	}
	if t := strings.Join(texts, ""); t != "" {
		p.add(harmonyMessage{role: "assistant", channel: "commentary", texts: []string{t}})
	}
	think()
	for j, call := range calls.Items() {
		fn, _ := call.Map().Get("function")
		name, _ := fn.Map().Get("name")
		raw, _ := fn.Map().Get("arguments")
		text := raw.Str()
		if raw.Map() != nil {
			b, err := jinja.AppendJSON(nil, raw)
			if err != nil {
				return inputErr("messages[%d].tool_calls[%d].function.arguments: %s", i, j, message(err))
			}
			text = string(b)
		}
		p.add(harmonyMessage{
			role: "assistant", recipient: "functions." + name.Str(), channel: "commentary", format: "json", texts: []string{text},
		})
	}
	return nil
}

// texts returns the texts of the content of a message.
func (p *harmonyParser) texts(i int, m *jinja.Map) ([]string, error) {
	v, _ := m.Get("content")
	switch v.Kind() {
	case jinja.Missing, jinja.None:
		return nil, nil
	case jinja.String:
		return []string{v.Str()}, nil
	case jinja.List:
	default:
		return nil, inputErr("messages[%d].content: expected a string or an array of parts", i)
	}
	out := make([]string, 0, len(v.Items()))
	for j, part := range v.Items() {
		pm := part.Map()
		if pm == nil {
			return nil, inputErr("messages[%d].content[%d]: expected an object", i, j)
		}
		if typ, _ := partType(pm); modality(typ) != "" || typ == "image" || typ == "audio" || typ == "video" {
			p.c.info.Approximate = true
			continue
		}
		text, _ := pm.Get("text")
		out = append(out, text.Str())
	}
	return out, nil
}
