package sim

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// resolve finds the model or adapter a request is for.
func (s *Server) resolve(c *call) *apiError {
	c.model = s.cfg.Model
	if c.req.Model == nil || *c.req.Model == "" || *c.req.Model == s.cfg.Model {
		return nil
	}
	name := *c.req.Model
	if slices.Contains(s.cfg.Aliases, name) {
		return nil
	}
	s.mu.Lock()
	_, ok := s.adapters[name]
	s.mu.Unlock()
	if !ok {
		return &apiError{http.StatusNotFound, "NotFoundError", "model", "the model " + name + " does not exist"}
	}
	c.model, c.adapter = name, name
	return nil
}

type modelCard struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	Created     int64   `json:"created"`
	OwnedBy     string  `json:"owned_by"`
	Root        string  `json:"root"`
	Parent      *string `json:"parent"`
	MaxModelLen *int    `json:"max_model_len"`
	Permission  []any   `json:"permission"`
}

func (s *Server) serveModels(w http.ResponseWriter, r *http.Request) {
	s.led.count(r.URL.Path)
	if !s.trouble(&s.models).serve(r.Context(), w) {
		return
	}
	created := time.Now().Unix()
	cards := []modelCard{}
	for _, name := range append([]string{s.cfg.Model}, s.cfg.Aliases...) {
		cards = append(cards, modelCard{
			ID: name, Object: "model", Created: created, OwnedBy: "vllm", Root: s.cfg.Model,
			MaxModelLen: &s.cfg.MaxModelLen, Permission: []any{},
		})
	}
	s.mu.Lock()
	for _, name := range s.order {
		cards = append(cards, modelCard{
			ID: name, Object: "model", Created: created, OwnedBy: "vllm", Root: s.adapters[name],
			Parent: &s.cfg.Model, Permission: []any{},
		})
	}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": cards})
}

func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	s.led.count(r.URL.Path)
	if !s.trouble(&s.health).serve(r.Context(), w) {
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (s *Server) trouble(t *Trouble) Trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *t
}

// addAdapter registers a name, with mu held or before the server is shared.
func (s *Server) addAdapter(name, path string) {
	s.adapters[name] = path
	s.order = append(s.order, name)
	s.eng.LoadAdapter(name)
}

type loraBody struct {
	Name    string `json:"lora_name"`
	Path    string `json:"lora_path"`
	Inplace bool   `json:"load_inplace"`
}

func (s *Server) readLoRA(w http.ResponseWriter, r *http.Request) (loraBody, bool) {
	s.led.count(r.URL.Path)
	var b loraBody
	if s.cfg.NoRuntimeLoRA {
		http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
		return b, false
	}
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil || b.Name == "" {
		writeError(w, &apiError{http.StatusBadRequest, "InvalidUserInput", "", "lora_name must be set"})
		return b, false
	}
	return b, true
}

func (s *Server) serveLoad(w http.ResponseWriter, r *http.Request) {
	b, ok := s.readLoRA(w, r)
	if !ok {
		return
	}
	if b.Path == "" {
		writeError(w, &apiError{http.StatusBadRequest, "InvalidUserInput", "", "lora_path must be set"})
		return
	}
	s.mu.Lock()
	_, exists := s.adapters[b.Name]
	if !exists {
		s.addAdapter(b.Name, b.Path)
	} else if b.Inplace {
		s.adapters[b.Name] = b.Path
		s.eng.LoadAdapter(b.Name)
	}
	s.mu.Unlock()
	if exists && !b.Inplace {
		writeError(w, &apiError{http.StatusBadRequest, "InvalidUserInput", "", "the adapter " + b.Name + " is already loaded"})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("Success: LoRA adapter '" + b.Name + "' added successfully."))
}

func (s *Server) serveUnload(w http.ResponseWriter, r *http.Request) {
	b, ok := s.readLoRA(w, r)
	if !ok {
		return
	}
	s.mu.Lock()
	_, exists := s.adapters[b.Name]
	if exists {
		delete(s.adapters, b.Name)
		for i, name := range s.order {
			if name == b.Name {
				s.order = append(s.order[:i], s.order[i+1:]...)
				break
			}
		}
	}
	s.mu.Unlock()
	if !exists {
		writeError(w, &apiError{http.StatusNotFound, "NotFoundError", "", "the adapter " + b.Name + " is not loaded"})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("Success: LoRA adapter '" + b.Name + "' removed successfully."))
}

// serveTokenize answers with the ids the engine would see.
func (s *Server) serveTokenize(w http.ResponseWriter, r *http.Request) {
	s.led.count(r.URL.Path)
	var b struct {
		Model    *string         `json:"model"`
		Prompt   *string         `json:"prompt"`
		Messages json.RawMessage `json:"messages"`
		Tools    json.RawMessage `json:"tools"`
	}
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
		writeError(w, &apiError{http.StatusBadRequest, "Bad Request", "", "request body: " + err.Error()})
		return
	}
	c := &call{req: &body{Model: b.Model}}
	if bad := s.resolve(c); bad != nil {
		writeError(w, bad)
		return
	}
	var ids []uint32
	if b.Prompt != nil {
		ids = s.cfg.TokenizePrompt(nil, *b.Prompt)
	} else {
		text, err := s.cfg.Render(nil, b.Messages, b.Tools)
		if err != nil {
			writeError(w, badRequest("", "%v", err))
			return
		}
		ids = s.cfg.Tokenize(nil, string(text))
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"count": len(ids), "max_model_len": s.cfg.MaxModelLen, "tokens": append([]uint32{}, ids...), "token_strs": nil,
	})
}
