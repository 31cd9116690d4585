package vllm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const (
	pathTokenize = "/tokenize"
	pathRender   = "/v1/chat/completions/render"

	maxProbeAnswer = 1 << 20 // bytes
)

// routes are those that a replica was found not to have.
type routes struct{ noTokenize, noRender bool }

var errAbsent = errors.New("vllm: the replica has no such route")

// question is what both routes take.
type question struct {
	Model    string          `json:"model,omitempty"`
	Prompt   *string         `json:"prompt,omitempty"`
	Messages json.RawMessage `json:"messages,omitempty"`
	Tools    json.RawMessage `json:"tools,omitempty"`
	Special  *bool           `json:"add_special_tokens,omitempty"`
	Generate *bool           `json:"add_generation_prompt,omitempty"`
}

// ask returns the replica's ids of a probe and the route that they are from.
func (c *comparison) ask(ctx context.Context, pr *probe) (ids []uint32, from string, err error) {
	q := question{Model: c.cfg.Model}
	if pr.messages == "" {
		q.Prompt, q.Special = &pr.prompt, new(true)
	} else {
		q.Messages, q.Tools, q.Generate = json.RawMessage(pr.messages), json.RawMessage(pr.tools), new(true)
		ids, err = c.render(ctx, q)
		if err == nil || !answered(err) {
			return ids, pathRender, err
		}
		q.Special = new(false)
	}
	if c.routes.noTokenize {
		return nil, pathTokenize, errAbsent
	}
	body, err := c.post(ctx, pathTokenize, q)
	if errors.Is(err, errAbsent) {
		c.routes.noTokenize = true
	}
	if err != nil {
		return nil, pathTokenize, err
	}
	ids, err = tokenized(body)
	return ids, pathTokenize, err
}

// render asks for the ids of a conversation as the engine would compute them.
func (c *comparison) render(ctx context.Context, q question) ([]uint32, error) {
	if c.routes.noRender {
		return nil, errAbsent
	}
	body, err := c.post(ctx, pathRender, q)
	if errors.Is(err, errAbsent) {
		c.routes.noRender = true
	}
	if err != nil {
		return nil, err
	}
	return rendered(body)
}

// post sends q and returns the answer's body. The error is errAbsent where
// there is no such route, an *Error for any other status, errAnswer for a
// body that is too long, and otherwise that of the transport.
func (c *comparison) post(ctx context.Context, path string, q question) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	data, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("vllm: %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.base, "/")+path, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("vllm: %s: the replica's address does not parse", path)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("vllm: %s: %w", path, cause(err))
	}
	defer drain(resp.Body)
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProbeAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("vllm: %s: %w", path, err)
	case resp.StatusCode != http.StatusOK:
		return nil, statusError(resp.StatusCode, body)
	case len(body) > maxProbeAnswer:
		return nil, errAnswer
	}
	return body, nil
}

// statusError tells a route that does not exist from a model that does not.
func statusError(status int, body []byte) error {
	e := DecodeError(status, body)
	if status == http.StatusMethodNotAllowed || status == http.StatusNotFound && e.Type == "" {
		return errAbsent
	}
	return e
}

var errAnswer = errors.New("vllm: the answer holds no token ids, or too many")

// answered reports whether an error is about what the replica said, and not
// that it said nothing.
func answered(err error) bool {
	return errors.Is(err, errAbsent) || errors.Is(err, errAnswer) || errors.As(err, new(*Error))
}

// tokenized reads the ids in an answer of /tokenize.
func tokenized(body []byte) ([]uint32, error) {
	var answer struct {
		Tokens []uint32 `json:"tokens"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Tokens == nil {
		return nil, errAnswer
	}
	return answer.Tokens, nil
}

// rendered reads the ids in an answer of the render route: an object with
// token_ids, or, from the first engines that had the route, a list of the
// conversation and its prompts.
func rendered(body []byte) ([]uint32, error) {
	var answer struct {
		IDs []uint32 `json:"token_ids"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.IDs != nil {
		return answer.IDs, nil
	}
	var pair []json.RawMessage
	var prompts []struct {
		IDs []uint32 `json:"prompt_token_ids"`
	}
	if json.Unmarshal(body, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[1], &prompts) != nil || len(prompts) != 1 || prompts[0].IDs == nil {
		return nil, errAnswer
	}
	return prompts[0].IDs, nil
}
