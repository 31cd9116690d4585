package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/expediterhq/expediter/internal/jinja"
)

// ContentFormat is how a template wants the content of a message.
type ContentFormat uint8

const (
	// FormatAuto chooses by looking at how the template uses content.
	FormatAuto ContentFormat = iota
	// FormatString joins the text parts of a message with newlines.
	FormatString
	// FormatOpenAI gives the template the list of parts.
	FormatOpenAI
)

// String returns the name that vLLM uses for the format.
func (f ContentFormat) String() string {
	switch f {
	case FormatString:
		return "string"
	case FormatOpenAI:
		return "openai"
	}
	return "auto"
}

// Options are what a Template knows about its model.
type Options struct {
	BOS, EOS string        // the bos_token and eos_token variables
	Format   ContentFormat // If zero, found from the template.

	MaxOutput int // bytes of rendered text. If zero, 16 MiB.
	MaxSteps  int // steps of one render, each up to 50 ns of work. If zero, 10 million.
	MaxBuild  int // bytes of intermediate values of one render. If zero, 256 MiB.
}

// Template is a compiled chat template. It is safe for concurrent use. It keeps
// a bounded number of sets of tools that come again, with what the template
// writes for them; renders are the same without.
type Template struct {
	tmpl   *jinja.Template
	o      Options
	format ContentFormat
	cache  toolCache
}

// Compile parses a chat template. It fails with an *Error if the source is not
// a template that can run here.
func Compile(source string, o Options) (*Template, error) {
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, wrap(err)
	}
	format := o.Format
	if format == FormatAuto {
		format = FormatString
		if t.IteratesContent() {
			format = FormatOpenAI
		}
	}
	return &Template{tmpl: t, o: o, format: format}, nil
}

// ContentFormat returns the format that messages are given in: FormatString or
// FormatOpenAI.
func (t *Template) ContentFormat() ContentFormat { return t.format }

// Input is one conversation. The raw fields are taken from the request body as
// they are; an empty one or null means that the request has none. They must
// not change while a render runs.
type Input struct {
	Messages  json.RawMessage // array of messages
	Tools     json.RawMessage // array of tools
	Documents json.RawMessage // array of documents
	Kwargs    json.RawMessage // object: chat_template_kwargs

	// ReasoningEffort is the request's reasoning_effort. If not empty, the
	// template sees it as reasoning_effort, and enable_thinking is set unless
	// Kwargs has it: false for "none" and true for any other effort.
	ReasoningEffort string

	AddGenerationPrompt  *bool // If nil, true.
	ContinueFinalMessage bool  // leave the last message open

	// Preprocessed says that Messages and Tools have already been through the
	// engine's preprocessing and go to the template as they are.
	Preprocessed bool

	// Now is the clock of the template, in the time zone of the engine. If
	// zero, time.Now().
	Now time.Time
}

// Info says what a render had to leave open.
type Info struct {
	// Approximate is set if a message has parts that are not text, such as
	// images or audio. They are rendered as the template's placeholder or not
	// at all; the engine will count more tokens than the text has.
	Approximate bool
}

// Error is a conversation that the template refuses, or input that is not what
// a chat request has. Message is safe to show to the client.
type Error struct {
	Kind    string // Python's name of the error, such as TemplateError or TypeError
	Message string
	Line    int // line of the template; 0 if the error is not in the template
}

// Error returns the kind and the message.
func (e *Error) Error() string { return "chat: " + e.Kind + ": " + e.Message }

// KindInput is the Kind of an Error for input that is not a chat request.
const KindInput = "InputError"

func inputErr(format string, args ...any) *Error {
	return &Error{Kind: KindInput, Message: fmt.Sprintf(format, args...)}
}

// Limited reports whether the render was stopped because it would have cost
// more than Options allow.
func (e *Error) Limited() bool { return e.Kind == jinja.KindLimit }

// message returns what err says without its kind, for use inside another
// error.
func message(err error) string {
	var inner *jinja.Error
	var e *Error
	switch {
	case errors.As(err, &inner):
		return inner.Message
	case errors.As(err, &e):
		return e.Message
	}
	return err.Error()
}

func wrap(err error) error {
	var e *jinja.Error
	if errors.As(err, &e) {
		return &Error{Kind: e.Kind, Message: e.Message, Line: e.Line}
	}
	return err
}

// Append appends the rendered conversation to dst. On error, which is an
// *Error, it returns dst unchanged.
func (t *Template) Append(dst []byte, in Input) ([]byte, error) {
	out, _, err := t.AppendInfo(dst, in)
	return out, err
}

// AppendInfo is Append and also says how exact the text is.
func (t *Template) AppendInfo(dst []byte, in Input) ([]byte, Info, error) {
	c := newConversation()
	defer c.release()
	if !in.Preprocessed {
		c.cache = &t.cache
	}
	if err := c.decode(&in); err != nil {
		return dst, Info{}, wrap(err)
	}
	if !in.Preprocessed {
		if err := c.preprocess(t.format); err != nil {
			return dst, c.info, err
		}
	}
	if c.cache != nil && !c.ordered {
		t.cache.offer(in.Tools, t.tmpl.Forget)
	}
	out, err := t.render(dst, c, &in)
	if err != nil {
		return dst, c.info, wrap(err)
	}
	return out, c.info, nil
}

// render runs the template, and cuts the text after the last message if that
// is to be continued.
func (t *Template) render(dst []byte, c *conversation, in *Input) ([]byte, error) {
	final, err := "", error(nil)
	if c.keepOpen {
		if final, err = c.openFinal(); err != nil {
			return dst, err
		}
	}
	env := jinja.Env{
		Vars: c.vars(t.o),
		Now:  in.Now,
		Limits: jinja.Limits{
			Output: t.o.MaxOutput, Steps: t.o.MaxSteps, Build: t.o.MaxBuild,
		},
	}
	out, err := t.tmpl.Render(dst, &env)
	if err != nil || !c.keepOpen {
		return out, err
	}
	return cutOpen(out, len(dst), final)
}
