package expediter

import (
	"net/http"
	"time"
)

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
