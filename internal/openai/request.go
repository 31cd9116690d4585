package openai

import (
	"encoding/json"
	"slices"
)

// Kind is the endpoint a body was sent to.
type Kind uint8

// The endpoints.
const (
	Chat       Kind = iota // /v1/chat/completions
	Completion             // /v1/completions
)

// Request is what a body asks for. Slices of bytes in it are parts of the
// body: neither may be modified while the other is in use. A Request is
// read-only after Parse and safe for concurrent use.
type Request struct {
	Kind   Kind
	Body   []byte
	Fields []Field // the top-level fields in their order

	Model  string // empty if absent, null or empty
	Stream bool

	N         int    // choices per prompt, 1 if absent
	MaxTokens int    // the limit the engine honours, -1 if absent
	MaxField  string // the field MaxTokens came from, empty if absent

	Prompts    []Prompt        // completions only
	Messages   json.RawMessage // chat only: an array with at least one object
	Multimodal bool            // some content part is not text

	Tools      json.RawMessage // a non-empty array, or nil
	ToolChoice json.RawMessage // nil if absent or null, as the four below
	Kwargs     json.RawMessage // chat_template_kwargs, an object
	Documents  json.RawMessage // an array
	Effort     json.RawMessage // reasoning_effort

	ChatTemplate         bool  // the client brought its own template
	AddGenerationPrompt  *bool // nil if absent
	AddSpecialTokens     *bool
	ContinueFinalMessage bool
	Truncate             bool // truncate_prompt_tokens: the engine will cut the prompt

	Echo           bool
	PromptLogprobs bool // the engine will not read its prefix cache for this request
	PromptEmbeds   bool
	ReturnTokenIDs bool

	StreamOptionsPresent bool // and not null
	IncludeUsage         bool
	ContinuousUsage      bool

	maxTokens, maxCompletion int // each field's own value, -1 if absent
	options                  streamOptions
	few                      [12]Field // backing of Fields for bodies of ordinary size
}

// Field is one top-level field of a body.
type Field struct {
	Name    string          // after unescaping
	Value   json.RawMessage // without white space around
	Control bool            // steers the engine rather than the answer: see Controls

	start int // offset of the name's opening quote
	value span
}

// Prompt is one prompt of a completion request: text, or token ids.
type Prompt struct {
	Text string
	IDs  []uint32 // not nil if the prompt was given as ids
}

// streamOptions locates stream_options for editing.
type streamOptions struct {
	empty               bool
	include, continuous span // values; zero if absent
	end                 int  // offset of the closing brace
}

// Field returns the top-level field of that exact name.
func (r *Request) Field(name string) (Field, bool) {
	for _, f := range r.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// ReasoningEffort is reasoning_effort as text, empty if absent.
func (r *Request) ReasoningEffort() string {
	var s string
	if len(r.Effort) == 0 || json.Unmarshal(r.Effort, &s) != nil {
		return ""
	}
	return s
}

// Sequences is the number of sequences the engine will run: N for each prompt.
func (r *Request) Sequences() int { return r.N * max(len(r.Prompts), 1) }

// controls is the list behind Controls.
var controls = [...]string{
	"cache_salt", "chat_template", "data_parallel_rank", "documents", "ec_transfer_params",
	"kv_cache_report_mode", "kv_transfer_params", "logits_processors", "media_io_kwargs",
	"mm_processor_kwargs", "priority", "prompt_embeds", "request_id", "truncate_prompt_tokens",
	"truncation_side", "vllm_xargs",
}

// Controls lists the fields that steer the engine rather than the answer, or
// make it connect somewhere. Fields of these names have Control set.
func Controls() []string { return slices.Clone(controls[:]) }

// known holds the names worth not allocating, and safe to show in messages.
var known = func() map[string]string {
	m := make(map[string]string)
	for _, n := range append(Controls(), "model", "messages", "prompt", "stream", "stream_options",
		"max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "stop", "tools",
		"tool_choice", "user", "seed", "echo", "logprobs", "prompt_logprobs", "response_format",
		"add_generation_prompt", "continue_final_message", "add_special_tokens",
		"chat_template_kwargs", "reasoning_effort", "return_token_ids", "include_usage",
		"continuous_usage_stats", "role", "content", "type", "text", "tool_calls", "name") {
		m[n] = n
	}
	return m
}()

// fieldName returns the name as a string and whether it is one of Controls.
func fieldName(b []byte) (name string, control bool) {
	name, ok := known[string(b)]
	if !ok {
		return string(b), false
	}
	return name, slices.Contains(controls[:], name)
}
