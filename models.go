package expediter

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/expediterhq/expediter/internal/openai"
)

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

// health says that the process serves.
func (h *Handler) health(w http.ResponseWriter, r *http.Request) {
	if h.get(w, r) {
		writeJSON(w, map[string]string{"status": "ok"})
	}
}

// ready says whether new requests are welcome: not while draining, and not
// before some replica can take one.
func (h *Handler) ready(w http.ResponseWriter, r *http.Request) {
	if !h.get(w, r) {
		return
	}
	if h.draining.Load() {
		h.refuse(w, errShutdown())
		return
	}
	now := time.Now()
	routable := make(map[string]int)
	some := false
	for name, p := range h.current.Load().pools {
		n := 0
		for _, rep := range p.replicas.Replicas() {
			if rep.Routable(now) {
				n++
			}
		}
		routable[name] = n
		some = some || n > 0
	}
	if !some {
		h.refuse(w, errNoReplica())
		return
	}
	writeJSON(w, map[string]any{"status": "ready", "replicas": routable})
}

func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) {
	m := h.current.Load().Metrics
	if m == nil {
		h.refuse(w, errNoRoute())
		return
	}
	if h.get(w, r) {
		m.ServeHTTP(w, r)
	}
}

// get lets GET and HEAD pass.
func (h *Handler) get(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	h.refuse(w, errMethod("GET"))
	return false
}

// refuse answers a request that no tenant stands behind.
func (h *Handler) refuse(w http.ResponseWriter, err error) {
	e, ok := err.(*openai.Error)
	if !ok {
		e = errInternal()
	}
	h.current.Load().Refused(e.Status)
	_ = e.Write(w) // nobody is left to tell if this fails
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		_ = errInternal().Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may be gone
}
