package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// body is the part of a generation request that the replica looks at. Fields
// it does not know are ignored, as in vLLM.
type body struct {
	Model               *string         `json:"model"`
	Messages            json.RawMessage `json:"messages"`
	Tools               json.RawMessage `json:"tools"`
	Prompt              json.RawMessage `json:"prompt"`
	ChatTemplate        json.RawMessage `json:"chat_template"`
	N                   *int            `json:"n"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	Seed                *int64          `json:"seed"`
	Stop                stops           `json:"stop"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options"`
	CacheSalt           string          `json:"cache_salt"`
	Priority            int             `json:"priority"`
	PromptLogprobs      *int            `json:"prompt_logprobs"`
	RequestID           string          `json:"request_id"`
	Echo                bool            `json:"echo"`
	ReturnTokenIDs      bool            `json:"return_token_ids"`

	chat   bool
	echoed []string // text of each prompt, for echo
}

type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

// stops is a string or a list of strings.
type stops []string

func (s *stops) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		if one != "" {
			*s = stops{one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(s))
}

// apiError is an answer of vLLM's error shape.
type apiError struct {
	status  int
	typ     string
	param   string
	message string
}

func (e *apiError) Error() string { return e.message }

func badRequest(param, format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "BadRequestError", param, fmt.Sprintf(format, args...)}
}

func (e *apiError) append(dst []byte) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = appendString(dst, e.message)
	dst = append(dst, `,"type":`...)
	dst = appendString(dst, e.typ)
	dst = append(dst, `,"param":`...)
	if e.param == "" {
		dst = append(dst, `null`...)
	} else {
		dst = appendString(dst, e.param)
	}
	return fmt.Appendf(dst, `,"code":%d}}`, e.status)
}

func writeError(w http.ResponseWriter, e *apiError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_, _ = w.Write(e.append(nil))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// appendString appends s as a JSON string, without HTML escapes.
func appendString(dst []byte, s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err)
	}
	return append(dst, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// parse reads a request body and checks what vLLM's request schema checks.
func parse(data []byte, chat bool) (*body, *apiError) {
	b := &body{chat: chat}
	if err := unmarshal(data, b); err != nil {
		return nil, err
	}
	switch {
	case b.StreamOptions != nil && !b.Stream:
		return nil, badRequest("stream_options", "stream_options is only allowed with stream set")
	case b.N != nil && (*b.N < 1 || *b.N > 16384):
		return nil, badRequest("n", "n is %d, want 1 to 16384", *b.N)
	case b.MaxTokens != nil && *b.MaxTokens < 1:
		return nil, badRequest("max_tokens", "max_tokens is %d, want at least 1", *b.MaxTokens)
	case chat && b.MaxCompletionTokens != nil && *b.MaxCompletionTokens < 1:
		return nil, badRequest("max_completion_tokens", "max_completion_tokens is %d, want at least 1", *b.MaxCompletionTokens)
	case len(b.ChatTemplate) > 0 && string(b.ChatTemplate) != "null":
		return nil, badRequest("chat_template", "chat_template in the request is not trusted by this server")
	case b.PromptLogprobs != nil && b.Stream:
		return nil, badRequest("prompt_logprobs", "prompt_logprobs is not available with stream set")
	}
	if string(b.Tools) == "null" {
		b.Tools = nil
	}
	if t := bytes.TrimSpace(b.Tools); len(t) > 1 && t[0] == '[' && len(bytes.TrimSpace(t[1:len(t)-1])) == 0 {
		return nil, badRequest("tools", "tools is an empty list")
	}
	if m := b.maxTokens(); m >= 0 && b.MinTokens > m {
		return nil, badRequest("min_tokens", "min_tokens is %d, which is more than the output limit of %d", b.MinTokens, m)
	}
	return b, nil
}

func (b *body) count() int {
	if b.N == nil {
		return 1
	}
	return *b.N
}

func (b *body) seed() uint64 {
	if b.Seed == nil {
		return 0
	}
	return uint64(*b.Seed)
}

// maxTokens is the output limit asked for, -1 if there is none.
func (b *body) maxTokens() int {
	switch {
	case b.chat && b.MaxCompletionTokens != nil:
		return *b.MaxCompletionTokens
	case b.MaxTokens != nil:
		return *b.MaxTokens
	case b.chat:
		return -1
	}
	return 16
}

// maxField names the field that set the output limit.
func (b *body) maxField() string {
	if b.chat && b.MaxCompletionTokens != nil {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// usage reports whether a final usage chunk and usage in every chunk are wanted.
func (b *body) usage(force bool) (final, every bool) {
	if force {
		return true, true
	}
	if b.StreamOptions == nil || !b.StreamOptions.IncludeUsage {
		return false, false
	}
	return true, b.StreamOptions.ContinuousUsage
}

// vocabulary is the number of token ids that are accepted in prompts.
const vocabulary = 1 << 20

// prompts turns the request into token ids.
func (s *Server) prompts(b *body) ([][]uint32, *apiError) {
	if b.chat {
		if len(b.Messages) == 0 {
			return nil, &apiError{http.StatusBadRequest, "Bad Request", "", "messages: field required"}
		}
		text, err := s.cfg.Render(nil, b.Messages, b.Tools)
		if err != nil {
			return nil, badRequest("", "%v", err)
		}
		return [][]uint32{s.cfg.Tokenize(nil, string(text))}, nil
	}
	return s.completionPrompts(b)
}

func (s *Server) completionPrompts(b *body) ([][]uint32, *apiError) {
	var text string
	var texts []string
	var ids []int64
	var lists [][]int64
	switch {
	case json.Unmarshal(b.Prompt, &text) == nil && len(b.Prompt) > 0 && string(b.Prompt) != "null":
		texts = []string{text}
	case json.Unmarshal(b.Prompt, &texts) == nil && len(texts) > 0:
	case json.Unmarshal(b.Prompt, &ids) == nil && len(ids) > 0:
		lists = [][]int64{ids}
	case json.Unmarshal(b.Prompt, &lists) == nil && len(lists) > 0:
	default:
		return nil, &apiError{http.StatusBadRequest, "Bad Request", "", "prompt: want a string, a list of strings, token ids or lists of token ids"}
	}
	if len(texts)+len(lists) > 1024 {
		return nil, badRequest("prompt", "prompt has %d entries, want at most 1024", len(texts)+len(lists))
	}
	var out [][]uint32
	if len(lists) > 0 { // a failed attempt at texts may have left empty strings behind
		for _, list := range lists {
			one := make([]uint32, len(list))
			for i, id := range list {
				if id < 0 || id >= vocabulary {
					return nil, badRequest("prompt", "token id %d is out of vocabulary", id)
				}
				one[i] = uint32(id)
			}
			out = append(out, one)
			b.echoed = append(b.echoed, fmt.Sprint(list))
		}
		return out, nil
	}
	for _, t := range texts {
		out = append(out, s.cfg.TokenizePrompt(nil, t))
	}
	b.echoed = texts
	return out, nil
}

// checkLength refuses prompts that leave no room for the output.
func (s *Server) checkLength(b *body, prompts [][]uint32) *apiError {
	most, limit := s.cfg.MaxModelLen, b.maxTokens()
	if limit > most {
		return badRequest(b.maxField(), "%s is %d, which is more than the context of %d tokens", b.maxField(), limit, most)
	}
	for _, ids := range prompts {
		if len(ids) == 0 {
			return badRequest("prompt", "prompt is empty")
		}
		if len(ids)+max(limit, 1) > most {
			return badRequest("input_tokens", "prompt of %d tokens with an output of %d is more than the context of %d tokens", len(ids), max(limit, 1), most)
		}
	}
	return nil
}
