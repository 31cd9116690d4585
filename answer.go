package expediter

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/expediterhq/expediter/internal/openai"
)

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
	if len(w.Header()["X-Request-Id"]) == 0 {
		w.Header()["X-Request-Id"] = []string{newID()}
	}
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
