package expediter

import "net/http"

const modelsPrefix = "/v1/models/"

// modelEntry is one model in OpenAI's shape, with the fields that vLLM adds.
type modelEntry struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	Created     int64   `json:"created"`
	OwnedBy     string  `json:"owned_by"`
	Parent      *string `json:"parent"` // the base model of an adapter
	MaxModelLen *int    `json:"max_model_len"`
}

// models lists the names that the caller may ask for.
func (h *Handler) models(w http.ResponseWriter, r *http.Request) {
	g, t, ok := h.lookup(w, r)
	if !ok {
		return
	}
	list := make([]modelEntry, 0, len(g.Models))
	for i := range g.Models {
		if m := &g.Models[i]; t.May(m.Name) {
			list = append(list, g.entry(m))
		}
	}
	writeJSON(w, map[string]any{"object": "list", "data": list})
}

// oneModel describes one name.
func (h *Handler) oneModel(w http.ResponseWriter, r *http.Request, name string) {
	g, t, ok := h.lookup(w, r)
	if !ok {
		return
	}
	m := g.models[name]
	if m == nil || !t.May(name) {
		h.refuse(w, errModel(name))
		return
	}
	writeJSON(w, g.entry(m))
}

// lookup finds the caller of a GET; ok is false once it has been refused.
func (h *Handler) lookup(w http.ResponseWriter, r *http.Request) (*generation, *Tenant, bool) {
	if !h.get(w, r) {
		return nil, nil, false
	}
	g := h.current.Load()
	t, err := g.authenticate(r)
	if err != nil {
		h.refuse(w, err)
		return nil, nil, false
	}
	return g, t, true
}

// entry describes m, with the base model of its pool as its parent if it is an
// adapter.
func (g *generation) entry(m *Model) modelEntry {
	e := modelEntry{ID: m.Name, Object: "model", Created: g.made.Unix(), OwnedBy: "expediter"}
	p := g.pools[m.Pool]
	if p.MaxModelLen > 0 {
		e.MaxModelLen = &p.MaxModelLen
	}
	if m.Adapter == "" {
		return e
	}
	for i := range g.Models {
		if base := &g.Models[i]; base.Pool == m.Pool && base.Adapter == "" {
			e.Parent = &base.Name
			break
		}
	}
	return e
}
