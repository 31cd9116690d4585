package expediter

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/expediterhq/expediter/sse"
	"github.com/expediterhq/expediter/vllm"
)

// show appends to a.out what the client shall see of an event: the model
// under the name it asked for, and usage only as it asked for it. An event
// that needs no change is passed on byte for byte.
func (a *attempt) show(ev sse.Event, c *vllm.Chunk) {
	last := c.Choices == 0 && c.Usage.Present // the chunk that only tells usage
	if last && !a.shows.usage {
		return
	}
	cut := c.Usage.Present && !last && !a.shows.continuous
	if !cut && !a.renamed(c) {
		a.out = append(a.out, ev.Raw...)
		return
	}
	if bytes.IndexByte(ev.Data, '\n') < 0 { // as of all engines
		a.out = append(a.out, "data: "...)
		a.out = a.appendEdited(a.out, ev.Data, c, cut)
		a.out = append(a.out, "\n\n"...)
		return
	}
	a.cut = a.appendEdited(a.cut[:0], ev.Data, c, cut)
	a.out = appendEvent(a.out, a.cut)
}

// nameJSON returns the name the client asked for as a JSON string.
func (a *attempt) nameJSON() []byte {
	if a.name == nil {
		a.name, _ = json.Marshal(a.model.Name) // a string always marshals
	}
	return a.name
}

// writeWhole sends data as the whole answer.
func (a *attempt) writeWhole(data []byte) error {
	rc := http.NewResponseController(a.w)
	_ = rc.SetWriteDeadline(time.Now().Add(a.g.Timeouts.Write)) // not every server has one
	h := a.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	if _, err := a.w.Write(data); err != nil {
		return errClientGone
	}
	return nil
}

func (a *attempt) renamed(c *vllm.Chunk) bool {
	return len(c.Model) > 0 && string(c.Model) != a.model.Name
}

// appendEdited appends data with the client's model name, and without usage
// if cut is set.
func (a *attempt) appendEdited(dst, data []byte, c *vllm.Chunk, cut bool) []byte {
	edits := [2]struct {
		from, to int
		model    bool
	}{}
	n := 0
	if a.renamed(c) {
		edits[n].from, edits[n].to, edits[n].model = c.ModelStart, c.ModelEnd, true
		n++
	}
	if cut {
		edits[n].from, edits[n].to = c.UsageStart, c.UsageEnd
		n++
	}
	if n == 2 && edits[1].from < edits[0].from {
		edits[0], edits[1] = edits[1], edits[0]
	}
	at := 0
	for _, e := range edits[:n] {
		dst = append(dst, data[at:e.from]...)
		if e.model {
			dst = append(dst, a.nameJSON()...)
		}
		at = e.to
	}
	return append(dst, data[at:]...)
}

// appendEvent appends data as one event.
func appendEvent(dst, data []byte) []byte {
	for {
		line, rest, more := bytes.Cut(data, []byte{'\n'})
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if !more {
			return append(dst, '\n')
		}
		data = rest
	}
}
