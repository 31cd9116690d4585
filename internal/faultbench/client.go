package faultbench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

var asked atomic.Int64

// Request is a request a client makes.
type Request struct {
	Stream    bool
	MaxTokens int
	Fields    string // further fields of the body, with a leading comma
	Pad       int    // bytes by which the prompt is longer
	Text      string // further text of the prompt
	Header    http.Header
	Model     string // If empty, Alias
	OnEvent   func(n int, data string)

	nonce string
}

// Body returns the request's JSON document, and what only its own answer may
// hold.
func (r *Request) Body() (body, own string) {
	if r.nonce == "" {
		r.nonce = fmt.Sprintf("nonce-%x-", asked.Add(1))
	}
	model := r.Model
	if model == "" {
		model = Alias
	}
	text, _ := json.Marshal(Prompt + " " + r.nonce + r.Text + strings.Repeat("x", r.Pad)) // a string always marshals
	return fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":%d,"messages":[{"role":"user","content":%s}]%s}`, model, r.Stream, r.MaxTokens, text, r.Fields), r.nonce
}

// Answer is what a client saw.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error // of the transport, or of the body's end

	Events []string // data of each event
	Text   string   // of all deltas
	Deltas int
	Roles  int
	Finish string
	Done   bool
	Error  string // an error event's message, or an error body's
	Code   string // its code
	Usage  string // of the last chunk that has one
	IDs    map[string]bool
}

// OK reports whether the client would take it for a complete answer.
func (a *Answer) OK() bool { return a.Err == nil && a.Status == 200 && a.Error == "" }

// Do makes a request and reads the answer to its end. It checks that the
// answer holds nothing of another request and is of one piece, that a stream without a finish
// reason does not look like a success, and that no error tells a secret.
func (h *House) Do(ctx context.Context, r Request) Answer {
	h.T.Helper()
	body, own := r.Body()
	a := h.Send(ctx, "/v1/chat/completions", strings.NewReader(body), r.Header, r.OnEvent)
	for _, m := range nonce.FindAllString(a.Body, -1) {
		if m != own {
			h.T.Errorf("the answer to %s holds text of %s", own, m)
		}
	}
	if a.Roles > 1 || len(a.IDs) > 1 {
		h.T.Errorf("the answer to %s is put together from several: %s", own, a.Body)
	}
	if r.Stream && a.OK() && (a.Finish == "" || !a.Done) {
		h.T.Errorf("a stream without finish reason or [DONE] looks complete: %s", a.Body)
	}
	return a
}

// Send posts a body as it is.
func (h *House) Send(ctx context.Context, path string, body io.Reader, header http.Header, onEvent func(int, string)) Answer {
	h.T.Helper()
	var a Answer
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+path, body)
	h.must(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+h.Key)
	for name, v := range header {
		req.Header[name] = v
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		a.Err = err
		return a
	}
	defer resp.Body.Close()
	a.Read(resp, onEvent)
	if a.Status >= 400 {
		h.NoSecrets("error body", a.Body)
	}
	return a
}

// Read reads a response to its end.
func (a *Answer) Read(resp *http.Response, onEvent func(int, string)) {
	a.Status, a.Header, a.IDs = resp.StatusCode, resp.Header, make(map[string]bool)
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b, err := io.ReadAll(resp.Body)
		a.Body, a.Err = string(b), err
		a.look(b)
		return
	}
	br := bufio.NewReader(resp.Body)
	var text, data strings.Builder
	n := 0
	for {
		line, err := br.ReadString('\n')
		text.WriteString(line)
		if err != nil {
			if err != io.EOF {
				a.Err = err
			}
			break
		}
		line = strings.TrimRight(line, "\r\n")
		if v, ok := strings.CutPrefix(line, "data:"); ok {
			if data.Len() > 0 {
				data.WriteByte('\n')
			}
			data.WriteString(strings.TrimPrefix(v, " "))
			continue
		}
		if line != "" || data.Len() == 0 {
			continue
		}
		n++
		a.event(data.String())
		if onEvent != nil {
			onEvent(n, data.String())
		}
		data.Reset()
	}
	a.Body = text.String()
}

func (a *Answer) event(data string) {
	a.Events = append(a.Events, data)
	if data == "[DONE]" {
		a.Done = true
		return
	}
	a.look([]byte(data))
}

func (a *Answer) look(doc []byte) {
	var d struct {
		ID      string
		Choices []struct {
			Delta struct {
				Role, Content string
			}
			Message      struct{ Content string }
			FinishReason *string `json:"finish_reason"`
		}
		Usage json.RawMessage
		Error *struct {
			Message string
			Code    any
		}
	}
	if json.Unmarshal(doc, &d) != nil {
		return
	}
	if d.ID != "" && a.IDs != nil {
		a.IDs[d.ID] = true
	}
	if d.Error != nil {
		a.Error, a.Code = d.Error.Message, fmt.Sprint(d.Error.Code)
	}
	if len(d.Usage) > 0 && string(d.Usage) != "null" {
		a.Usage = string(d.Usage)
	}
	for _, c := range d.Choices {
		a.Text += c.Delta.Content + c.Message.Content
		if c.Delta.Content != "" {
			a.Deltas++
		}
		if c.Delta.Role != "" {
			a.Roles++
		}
		if c.FinishReason != nil {
			a.Finish = *c.FinishReason
		}
	}
}

// Leaver is a client on a socket of its own, which can leave as it likes.
type Leaver struct {
	Conn *net.TCPConn
	R    *bufio.Reader
}

// Dial connects to the gateway.
func (h *House) Dial() *Leaver {
	h.T.Helper()
	c, err := net.Dial("tcp", h.Addr)
	h.must(err)
	return &Leaver{c.(*net.TCPConn), bufio.NewReader(c)}
}

// Ask sends a request, whole.
func (h *House) Ask(r Request) *Leaver {
	h.T.Helper()
	l := h.Dial()
	body, _ := r.Body()
	fmt.Fprintf(l.Conn, "%s%s", h.Head(len(body)), body)
	return l
}

// Head is the head of a generation request.
func (h *House) Head(length int) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", h.Addr, h.Key, length)
}

// Deltas reads until n deltas with content have come.
func (l *Leaver) Deltas(n int) error {
	for n > 0 {
		line, err := l.R.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.HasPrefix(line, "data:") && strings.Contains(line, strings.TrimSpace(Words)) {
			n--
		}
	}
	return nil
}

// Leave closes the connection, or resets it, and says when.
func (l *Leaver) Leave(reset bool) time.Time {
	if reset {
		_ = l.Conn.SetLinger(0)
	}
	now := time.Now()
	_ = l.Conn.Close()
	return now
}
