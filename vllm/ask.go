package vllm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxAnswer bounds the answers to small questions, in bytes.
const maxAnswer = 4 << 20

// A StatusError is an answer with another status than 200.
type StatusError struct {
	Path   string // of the question, such as /v1/models
	Status int
	Empty  bool // the answer has no body
	JSON   bool // it is JSON, as are the server's own that have a body
}

// Error says what was asked and the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("vllm: %s answered status %d, expected 200", e.Path, e.Status)
}

// protected reports whether the engine asks for its key at the path.
func protected(path string) bool {
	return strings.Contains(path, "/v1/") || strings.Contains(path, "/v2/") || strings.Contains(path, "/inference/")
}

// ask sends a GET to the path below base and returns the answer, whose body
// the caller must close.
func ask(ctx context.Context, client *http.Client, base, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+path, nil)
	if err != nil {
		return nil, fmt.Errorf("vllm: %s: the replica's address does not parse", path)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("vllm: %s: %w", path, cause(err))
	}
	if resp.StatusCode != http.StatusOK {
		empty := drain(resp.Body) == 0
		return nil, &StatusError{Path: path, Status: resp.StatusCode, Empty: empty, JSON: strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")}
	}
	return resp, nil
}

// askJSON decodes the answer to a GET.
func askJSON(ctx context.Context, client *http.Client, base, path string, v any) error {
	resp, err := ask(ctx, client, base, path)
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("vllm: %s: %w", path, err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("vllm: %s: expected a JSON object of at most %d bytes", path, maxAnswer)
	}
	return nil
}

// drain reads what is left of a short body, so that the connection can be
// used again, and closes it. It returns how much that was.
func drain(body io.ReadCloser) int64 {
	n, _ := io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
	return n
}

// Model is one entry of a replica's list: a served name of the base model, or
// an adapter.
type Model struct {
	ID          string
	Parent      string // the base model's name for an adapter, else empty
	MaxModelLen int    // longest context in tokens; 0 for an adapter
}

// Models asks a replica what it serves. base is its address, as in
// registry.ReplicaConfig. A server with a key needs a client that sends it,
// see NewClient.
func Models(ctx context.Context, client *http.Client, base string) ([]Model, error) {
	var list struct {
		Data []struct {
			ID          string  `json:"id"`
			Parent      *string `json:"parent"`
			MaxModelLen *int64  `json:"max_model_len"`
		} `json:"data"`
	}
	if err := askJSON(ctx, client, base, "/v1/models", &list); err != nil {
		return nil, err
	}
	models := make([]Model, 0, len(list.Data))
	for _, d := range list.Data {
		m := Model{ID: d.ID}
		if d.Parent != nil {
			m.Parent = *d.Parent
		}
		if d.MaxModelLen != nil {
			m.MaxModelLen = int(min(max(*d.MaxModelLen, 0), MaxCount))
		}
		models = append(models, m)
	}
	return models, nil
}

// Health asks whether the server is up. That the engine behind it makes
// progress it does not say. A server that has lost its engine answers with an
// empty 503, one that is changing its size with one that is JSON.
func Health(ctx context.Context, client *http.Client, base string) error {
	resp, err := ask(ctx, client, base, "/health")
	if err != nil {
		return err
	}
	drain(resp.Body)
	return nil
}
