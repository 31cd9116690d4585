package sim

import (
	"io"
	"net/http"
)

// serveRender answers with the ids that the engine would compute for a chat
// request, without computing anything.
func (s *Server) serveRender(w http.ResponseWriter, r *http.Request) {
	s.led.count(r.URL.Path)
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	req, bad := parse(data, true)
	if bad != nil {
		writeError(w, bad)
		return
	}
	c := &call{req: req}
	if bad := s.resolve(c); bad != nil {
		writeError(w, bad)
		return
	}
	prompts, bad := s.prompts(req)
	if bad != nil {
		writeError(w, bad)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"request_id": "chatcmpl-" + req.RequestID, "model": c.model, "token_ids": append([]uint32{}, prompts[0]...),
		"sampling_params": map[string]any{"n": req.count()}, "stream": req.Stream, "cache_salt": nil, "priority": req.Priority,
	})
}
