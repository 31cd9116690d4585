package sim

import (
	"net/http"
	"strconv"
)

// stream writes the events of one streaming answer, each as one HTTP chunk.
type stream struct {
	w            http.ResponseWriter
	rc           *http.ResponseController
	c            *call
	final, every bool // usage wanted at the end, in every event
	details      bool // cached tokens in the final usage
	interval     int  // tokens per event
	buf          []byte
	head         []byte // the fields all events share
}

func (s *Server) openStream(w http.ResponseWriter, c *call) *stream {
	st := &stream{w: w, rc: http.NewResponseController(w), c: c, details: !s.cfg.HideCachedTokens, interval: s.cfg.StreamInterval}
	st.final, st.every = c.req.usage(s.cfg.ForceUsage)
	object := "text_completion"
	if c.req.chat {
		object = "chat.completion.chunk"
	}
	st.head = appendHead([]byte("data: "), c, object)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_ = st.rc.Flush()
	c.entry.update(func(e *Received) { e.Status = http.StatusOK })
	return st
}

// appendHead appends the fields every answer begins with, up to the choices.
func appendHead(dst []byte, c *call, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, c.id)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, c.created, 10)
	dst = append(dst, `,"model":`...)
	dst = appendString(dst, c.model)
	return append(dst, `,"choices":[`...)
}

// token writes what one engine output of a choice makes visible; with an
// interval, nothing until so many tokens have gathered.
func (st *stream) token(ch *choice, ev event) error {
	if ch.sent == 0 && st.c.req.chat {
		if err := st.role(ch); err != nil {
			return err
		}
	}
	first := ch.sent == 0
	if !ev.empty {
		ch.sent++
	}
	if ev.reason == "" && !first && ch.sent-ch.shown < st.interval {
		return nil
	}
	ch.reason = ev.reason
	st.buf = st.appendEvent(append(st.buf[:0], st.head...), ch, first)
	ch.shown = ch.sent
	if err := st.write(); err != nil {
		return err
	}
	st.c.entry.update(func(e *Received) { e.Sent = st.c.shown() })
	return nil
}

// appendEvent appends the event that shows the choice's gathered tokens.
func (st *stream) appendEvent(b []byte, ch *choice, first bool) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(ch.index), 10)
	if st.c.req.chat {
		b = append(b, `,"delta":{"content":"`...)
	} else {
		b = append(b, `,"text":"`...)
		if first && st.c.req.Echo {
			quoted := appendString(nil, st.c.echo(ch))
			b = append(b, quoted[1:len(quoted)-1]...)
		}
	}
	for i := ch.shown; i < ch.sent; i++ {
		b = ch.piece(b, i)
	}
	b = append(b, '"')
	if st.c.req.chat {
		b = append(b, '}')
	}
	b = append(b, `,"logprobs":null`...)
	b = appendReason(b, ch, !st.c.req.chat)
	if !st.c.req.chat {
		b = append(b, `,"prompt_token_ids":`...)
		b = st.promptIDs(b, ch, first)
	}
	b = append(b, `,"token_ids":`...)
	if st.c.req.ReturnTokenIDs && ch.shown < ch.sent {
		b = appendIDs(b, ch.out[ch.shown:ch.sent])
	} else {
		b = append(b, `null`...)
	}
	b = append(b, `}]`...)
	b = st.running(b, ch)
	return append(b, '}')
}

// appendReason appends the finish reason, and the stop reason where vLLM has one.
func appendReason(b []byte, ch *choice, always bool) []byte {
	b = append(b, `,"finish_reason":`...)
	if ch.reason == "" {
		b = append(b, `null`...)
	} else {
		b = append(append(append(b, '"'), ch.reason...), '"')
	}
	if ch.reason == "" && !always {
		return b
	}
	b = append(b, `,"stop_reason":`...)
	if ch.reason == Stopped && ch.end.stop != "" {
		return appendString(b, ch.end.stop)
	}
	return append(b, `null`...)
}

// role writes the first event of a chat choice.
func (st *stream) role(ch *choice) error {
	b := append(st.buf[:0], st.head...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(ch.index), 10)
	b = append(b, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	b = st.running(b, ch)
	b = append(b, `,"prompt_token_ids":`...)
	b = st.promptIDs(b, ch, true)
	b = append(b, '}')
	st.buf = b
	return st.write()
}

func (st *stream) promptIDs(b []byte, ch *choice, first bool) []byte {
	if !first || !st.c.req.ReturnTokenIDs {
		return append(b, `null`...)
	}
	return appendIDs(b, ch.ids)
}

// running appends the usage so far, if the client wants it in every event.
func (st *stream) running(b []byte, ch *choice) []byte {
	if !st.every {
		return b
	}
	return appendUsage(b, len(ch.ids), ch.sent, -1)
}

// usage writes the last event but one.
func (st *stream) usage() error {
	cached := -1
	if st.details {
		cached = st.c.cached()
	}
	b := append(st.buf[:0], st.head...)
	b = append(b, ']')
	b = appendUsage(b, st.c.prompt, st.c.generated(), cached)
	st.buf = append(b, '}')
	return st.write()
}

// appendUsage appends a usage object, with cached tokens unless they are negative.
func appendUsage(b []byte, prompt, completion, cached int) []byte {
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt+completion), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(completion), 10)
	if cached >= 0 {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(cached), 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendIDs(b []byte, ids []uint32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(id), 10)
	}
	return append(b, ']')
}

// write sends buf, which begins with the field name, as one event.
func (st *stream) write() error {
	st.buf = append(st.buf, "\n\n"...)
	if _, err := st.w.Write(st.buf); err != nil {
		return err
	}
	return st.rc.Flush()
}

// send sends data as one event.
func (st *stream) send(data []byte) error {
	st.buf = append(append(st.buf[:0], "data: "...), data...)
	return st.write()
}
