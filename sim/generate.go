package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"mime"
	"net/http"
	"time"
)

// generate serves both generation routes.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, chat bool) {
	s.led.count(r.URL.Path)
	a := &Arrival{Request: r}
	c := &call{wake: make(chan struct{}, 1), created: time.Now().Unix()}
	c.entry = s.led.add(Received{Path: r.URL.Path, Header: r.Header.Clone(), RemoteAddr: r.RemoteAddr, Arrived: time.Now()})
	defer func() { c.entry.update(func(e *Received) { e.Ended = time.Now() }) }()
	sc := &script{Fault: s.choose(a), s: s, w: w, r: r, entry: c.entry}
	if sc.Slice > 0 {
		sc.w = newSlicer(w, a.N, sc.Slice)
	}
	if sc.at(AtHeaders, 0) {
		return
	}
	data := a.Body()
	if a.err != nil {
		return // the client left while sending
	}
	c.entry.update(func(e *Received) { e.Body, e.Arrived = data, time.Now() })
	if sc.at(AtRequest, 0) {
		return
	}
	for _, status := range sc.Informational {
		sc.w.WriteHeader(status)
	}
	if bad := s.accept(c, r, data, chat); bad != nil {
		c.entry.update(func(e *Received) { e.Status = bad.status })
		writeError(sc.w, bad)
		return
	}
	s.run(sc, c)
}

// run submits an accepted request and serves its answer.
func (s *Server) run(sc *script, c *call) {
	switch err := s.submit(c); {
	case errors.Is(err, errDead):
		breakConn(sc.w, true)
	case errors.Is(err, errShutdown) && c.req.Stream:
		s.refuseStream(sc.w, c)
	case errors.Is(err, errShutdown):
		for i := range c.choices {
			c.push(event{choice: i, reason: Aborted, empty: true})
		}
		s.answer(sc, c)
	case err != nil:
		writeError(sc.w, badRequest("input_tokens", "%v", err))
	case c.req.Stream:
		s.stream(sc, c)
	default:
		s.answer(sc, c)
	}
}

// accept parses and checks a request and plans its sequences.
func (s *Server) accept(c *call, r *http.Request, data []byte, chat bool) *apiError {
	if mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mt != "application/json" {
		return &apiError{http.StatusBadRequest, "Bad Request", "", "content type is not application/json"}
	}
	req, bad := parse(data, chat)
	if bad != nil {
		return bad
	}
	c.req = req
	if bad := s.resolve(c); bad != nil {
		return bad
	}
	prompts, bad := s.prompts(req)
	if bad != nil {
		return bad
	}
	if bad := s.checkLength(req, prompts); bad != nil {
		return bad
	}
	c.id = "cmpl-"
	if chat {
		c.id = "chatcmpl-"
	}
	c.id += requestID(r, req)
	s.prepare(c, prompts)
	c.entry.update(func(e *Received) {
		e.ID, e.Stream, e.PromptTokens, e.Choices = c.id, req.Stream, c.prompt, len(c.choices)
		if req.Model != nil {
			e.Model = *req.Model
		}
	})
	return nil
}

func requestID(r *http.Request, b *body) string {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return id
	}
	if b.RequestID != "" {
		return b.RequestID
	}
	return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
}

// answer serves a request that does not stream.
func (s *Server) answer(sc *script, c *call) {
	for open := len(c.choices); open > 0; {
		events, err := c.take(sc.r.Context(), nil)
		if err != nil {
			s.left(c)
			return
		}
		for _, ev := range events {
			ch := &c.choices[ev.choice]
			if ev.reason == killed {
				breakConn(sc.w, true)
				return
			}
			if ch.reason != "" {
				continue
			}
			if !ev.empty {
				ch.body = ch.piece(ch.body, ch.sent)
				ch.sent++
			}
			if ev.reason != "" {
				ch.reason = ev.reason
				open--
			}
		}
	}
	s.finished(c)
	sc.w.Header().Set("Content-Type", "application/json")
	s.loadHeader(sc.w.Header(), sc.r.Header.Get("endpoint-load-metrics-format"))
	out := s.appendAnswer(nil, c)
	c.entry.update(func(e *Received) { e.Status, e.Sent = http.StatusOK, c.generated() })
	_, _ = sc.w.Write(out)
}

// left notes that the client has gone and ends the request in the engine.
func (s *Server) left(c *call) {
	c.entry.update(func(e *Received) { e.Aborted, e.Reason = time.Now(), Aborted })
	s.abort(c)
}

// finished notes that the engine is done with the request.
func (s *Server) finished(c *call) {
	s.led.gone(c)
	c.entry.update(func(e *Received) { e.Reason = c.choices[len(c.choices)-1].reason })
}

// stream serves a streaming request: the head at once, then one event per
// generated token.
func (s *Server) stream(sc *script, c *call) {
	st := s.openStream(sc.w, c)
	sc.tails = st.send
	if sc.at(AtHead, 0) || sc.at(AtToken, 0) {
		s.abort(c)
		return
	}
	var events []event
	for open := len(c.choices); open > 0; {
		var err error
		if events, err = c.take(sc.r.Context(), events); err != nil {
			s.left(c)
			return
		}
		for _, ev := range events {
			ch := &c.choices[ev.choice]
			if ev.reason == killed {
				breakConn(sc.w, true)
				return
			}
			if ch.reason != "" {
				continue
			}
			if ev.reason != "" {
				open--
			}
			if err := st.token(ch, ev); err != nil {
				s.left(c)
				return
			}
			if sc.at(AtToken, c.generated()) {
				s.abort(c)
				return
			}
		}
	}
	s.finished(c)
	if sc.at(AtDone, 0) {
		return
	}
	if st.final {
		if err := st.usage(); err != nil {
			return
		}
	}
	_ = st.send([]byte("[DONE]"))
}

// refuseStream is the stream of a replica that is shutting down: it ends
// without a finish reason.
func (s *Server) refuseStream(w http.ResponseWriter, c *call) {
	st := s.openStream(w, c)
	if c.req.chat {
		for i := range c.choices {
			_ = st.role(&c.choices[i])
		}
	}
	_ = st.send([]byte("[DONE]"))
}

// loadHeader adds the engine's load to an answer that does not stream, if the
// request asked for it.
func (s *Server) loadHeader(h http.Header, format string) {
	s.mu.Lock()
	st := s.shown
	s.mu.Unlock()
	switch format {
	case "JSON":
		h.Set("endpoint-load-metrics", fmt.Sprintf(`JSON {"named_metrics":{"kv_cache_usage_perc":%g,"num_requests_waiting":%d}}`, st.KVUsage(), st.Waiting))
	case "TEXT":
		h.Set("endpoint-load-metrics", fmt.Sprintf("TEXT named_metrics.kv_cache_usage_perc=%g, named_metrics.num_requests_waiting=%d", st.KVUsage(), st.Waiting))
	}
}
