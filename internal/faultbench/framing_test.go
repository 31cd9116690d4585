package faultbench_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
)

const wide = "a🙂漢字é"

// answer is the usual answer with a text that is easily cut in the middle.
func answer(g *faultbench.Got, tokens int) faultbench.Speech {
	s := faultbench.Speak(g)
	s.Text, s.Tokens = g.Nonce+wide, tokens
	return s
}

// joined is a whole stream as one piece, so that only the slicing cuts it.
func joined(p []faultbench.Piece, edit func([]byte) []byte) faultbench.Script {
	var b []byte
	tokens := 0
	for _, piece := range p {
		b = append(b, piece.Data...)
		tokens += piece.Tokens
	}
	return faultbench.Stream(faultbench.Piece{Data: edit(b), Tokens: tokens})
}

// TestA1EventSplitAtEveryByte: whatever the slicing, the client gets the
// same bytes and the record the same usage.
func TestA1EventSplitAtEveryByte(t *testing.T) {
	slice := 0
	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		sc := joined(answer(g, 200).Body(), func(b []byte) []byte { return b })
		sc.Slice = slice
		return sc
	}})
	var want string
	for _, slice = range []int{0, 1, 7} {
		r := faultbench.Request{Stream: true, MaxTokens: 200, Model: faultbench.Model, Fields: `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`}
		_, own := r.Body()
		a := h.Do(t.Context(), r)
		if !a.OK() || a.Text != strings.Repeat(own+wide, 200) || !strings.Contains(a.Usage, `"completion_tokens":200`) {
			t.Fatalf("slices of %d: %v, %d deltas, usage %s", slice, a.Err, a.Deltas, a.Usage)
		}
		body := stripIDs(a.Body, own)
		if slice == 0 {
			want = body
		}
		if body != want {
			t.Errorf("slices of %d: the client got other bytes", slice)
		}
	}
	for _, r := range h.Records() {
		if r.Output != 200 || r.Input != 7 || r.Estimated {
			t.Errorf("record = %+v, want 7 and 200 tokens", r)
		}
	}
}

// stripIDs makes the answers to different requests comparable.
func stripIDs(body, own string) string {
	body = strings.ReplaceAll(body, own, "")
	var b strings.Builder
	for part := range strings.SplitSeq(body, `"id":"`) {
		if _, rest, ok := strings.Cut(part, `"`); ok && strings.HasPrefix(part, "cmpl-") {
			part = rest
		}
		b.WriteString(part)
	}
	return b.String()
}

// TestA2CRLF: line ends of all kinds, mixed too.
func TestA2CRLF(t *testing.T) {
	for name, edit := range map[string]func([]byte) []byte{
		"CRLF": func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) },
		"CR":   func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r")) },
		"mixed": func(b []byte) []byte {
			n := 0
			var out []byte
			for _, c := range b {
				if c != '\n' {
					out = append(out, c)
					continue
				}
				n++
				out = append(out, []string{"\n", "\r\n", "\r"}[(n-1)/2%3]...) // both ends of an event alike
			}
			return out
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
				sc := joined(answer(g, 200).Body(), edit)
				sc.Slice = 50
				return sc
			}})
			// The alias makes the gateway write the events anew.
			r := faultbench.Request{Stream: true, MaxTokens: 200}
			_, own := r.Body()
			a := h.Do(t.Context(), r)
			if !a.OK() || a.Text != strings.Repeat(own+wide, 200) {
				t.Errorf("%v, %d deltas", a.Err, a.Deltas)
			}
			h.Check()
			if rec := h.Records()[0]; rec.Output != 200 || rec.TTFT == 0 || rec.Status != expediter.StatusOK {
				t.Errorf("record = %+v", rec)
			}
		})
	}
}

// TestA3LineEndInTwoReads: a pause between CR and LF, inside a data field of
// several lines.
func TestA3LineEndInTwoReads(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		s := answer(g, 2)
		d := bytes.TrimRight(s.Delta(1).Data, "\n")
		cut := bytes.Index(d, []byte(`"choices"`))
		p := []faultbench.Piece{
			s.Role(),
			{Data: append(bytes.Clone(d[:cut]), '\r'), Tokens: 1},
			{Data: append([]byte("\ndata: "), d[cut:]...), Pause: 20 * time.Millisecond},
			{Data: []byte("\r"), Pause: 20 * time.Millisecond},
			{Data: []byte("\n\r"), Pause: 20 * time.Millisecond},
			{Data: []byte("\n"), Pause: 20 * time.Millisecond},
			s.Delta(2), s.Finish(), s.Last(), faultbench.Done(),
		}
		return faultbench.Stream(p...)
	}})
	r := faultbench.Request{Stream: true, MaxTokens: 2}
	_, own := r.Body()
	a := h.Do(t.Context(), r)
	if !a.OK() || a.Text != own+wide+own+wide || a.Deltas != 2 || strings.Contains(a.Body, "\n\n\n") {
		t.Errorf("%v, %d deltas: %s", a.Err, a.Deltas, a.Body)
	}
}

// TestA5LargeLines: events above 64 KB, 1 MB and 4 MB pass whole.
func TestA5LargeLines(t *testing.T) {
	sizes := []int{70 << 10, 1<<20 + 1, 4 << 20}
	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		s := answer(g, 2*len(sizes))
		p := []faultbench.Piece{s.Role()}
		for i, n := range sizes {
			large := s
			large.Text = g.Nonce + strings.Repeat("L", n)
			p = append(p, large.Delta(2*i+1), s.Delta(2*i+2))
		}
		return faultbench.Stream(append(p, s.Finish(), s.Last(), faultbench.Done())...)
	}})
	a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 6})
	want := sizes[0] + sizes[1] + sizes[2]
	if !a.OK() || strings.Count(a.Text, "L") != want || a.Deltas != 6 {
		t.Errorf("%v, %d deltas, %d bytes, want 6 and %d", a.Err, a.Deltas, strings.Count(a.Text, "L"), want)
	}
}

// TestA7CommentsAndBlankLines: none of them becomes an event, none counts as
// a token, and none holds back the event before it.
func TestA7CommentsAndBlankLines(t *testing.T) {

	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		s := answer(g, 2)
		noise := []byte(": ping\n\n: ping\n\n\n\nid: 7\n\n")
		first := append(append(bytes.Clone(noise), s.Role().Data...), noise...)

		return faultbench.Stream(
			faultbench.Piece{Data: first},
			faultbench.Piece{Data: append(append(bytes.Clone(s.Delta(1).Data), noise...), ": pi"...), Tokens: 1},
			faultbench.Piece{Pause: 300 * time.Millisecond, Data: append([]byte("ng\n"), s.Delta(2).Data...), Tokens: 1},
			s.Finish(), s.Last(), faultbench.Done())
	}})

	var at []time.Time
	a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 2, OnEvent: func(_ int, data string) {
		at = append(at, time.Now())
		if data == "" {
			t.Error("an event without data")
		}
	}})
	if !a.OK() || a.Deltas != 2 || strings.Contains(a.Body, "\n\n\n") {
		t.Errorf("%v: %q", a.Err, a.Body)
	}
	if len(at) < 3 || at[2].Sub(at[1]) < 100*time.Millisecond {
		t.Errorf("the first delta waited for the second: events at %v", at)
	}
}

// TestA10FieldSyntax: data without a space, over several lines, with other
// fields around it.
func TestA10FieldSyntax(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		s := answer(g, 3)
		plain := func(n int) string { return strings.TrimSpace(strings.TrimPrefix(string(s.Delta(n).Data), "data: ")) }
		three := strings.Replace(strings.Replace(plain(2), `"choices"`, "\ndata: \"choices\"", 1), `"created"`, "\ndata:\"created\"", 1)
		return faultbench.Stream(
			faultbench.Piece{Data: []byte("\xef\xbb\xbfretry: 10\n\n")},
			s.Role(),
			faultbench.Piece{Data: []byte("data:" + plain(1) + "\n\n"), Tokens: 1},
			faultbench.Piece{Data: []byte("event: message\nid: 1\ndata: " + three + "\nfoo: bar\nbaz\n\n"), Tokens: 1},
			faultbench.Piece{Data: []byte("id\ndata: " + plain(3) + "\nretry: 1\n\n"), Tokens: 1},
			s.Finish(), s.Last(),
			faultbench.Piece{Data: []byte("data:[DONE]\n\n")})
	}})
	for _, model := range []string{faultbench.Alias, faultbench.Model} {
		r := faultbench.Request{Stream: true, MaxTokens: 3, Model: model}
		_, own := r.Body()
		a := h.Do(t.Context(), r)
		if !a.OK() || a.Text != strings.Repeat(own+wide, 3) {
			t.Errorf("%s: %v: %q", model, a.Err, a.Body)
		}
	}
	h.Check()
	for _, r := range h.Records() {
		if r.Output != 3 || r.Estimated {
			t.Errorf("record = %+v", r)
		}
	}
}

// TestB5ClientOffersGzip: the replica is not asked to compress.
func TestB5ClientOffersGzip(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{})
	a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 5, Header: http.Header{"Accept-Encoding": {"gzip, br"}}})
	if !a.OK() || a.Deltas != 5 || a.Header.Get("Content-Encoding") != "" {
		t.Errorf("%v, header %v: %s", a.Err, a.Header, a.Body)
	}
	if g := h.Ledger.All()[0]; g.Header.Get("Accept-Encoding") != "" {
		t.Errorf("the replica was offered %q", g.Header["Accept-Encoding"])
	}
}

// TestB8StreamHeaders: whatever the replica claims.
func TestB8StreamHeaders(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		sc := faultbench.Speak(g).Script()
		sc.Header.Set("Cache-Control", "max-age=600")
		sc.Header.Set("Set-Cookie", "a=b")
		sc.Header.Set("Server", "uvicorn")
		n := 0
		for _, p := range sc.Pieces {
			n += len(p.Data)
		}
		sc.Length = n
		return sc
	}})
	a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 3})
	if !a.OK() {
		t.Fatalf("%v %s", a.Err, a.Body)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Content-Length": "", "Content-Encoding": "", "Set-Cookie": "", "Server": "",
	} {
		if got := a.Header.Get(name); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if cc := a.Header.Get("Cache-Control"); !strings.Contains(cc, "no-cache") {
		t.Errorf("Cache-Control = %q", cc)
	}
}

// TestB1PerDeltaFlush: each event comes by itself: the replica sends the next
// one only when the client has the one before.
func TestB1PerDeltaFlush(t *testing.T) {
	const streams, tokens = 20, 20
	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		s := faultbench.Speak(g)
		s.Pace = 20 * time.Millisecond
		return s.Script()
	}})
	done := make(chan error, streams)
	for range streams {
		go func() {
			r := faultbench.Request{Stream: true, MaxTokens: tokens}
			var last time.Time
			gaps := 0
			r.OnEvent = func(_ int, data string) {
				if now := time.Now(); strings.Contains(data, "ANSWERMARK") {
					if !last.IsZero() && now.Sub(last) > 5*time.Millisecond {
						gaps++
					}
					last = now
				}
			}
			a := h.Do(context.Background(), r)
			switch {
			case !a.OK() || a.Deltas != tokens:
				done <- fmt.Errorf("%v, %d deltas", a.Err, a.Deltas)
			case gaps < tokens/2: // a buffer on the way would let them come in bursts
				done <- fmt.Errorf("%d of %d deltas came by themselves", gaps, tokens)
			default:
				done <- nil
			}
		}()
	}
	for range streams {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestB3ServerWriteTimeout: the server's own time-out, which is one for the
// whole response, does not cut a stream; a client that stops reading is cut off
// by the gateway's, and an answer that is not streamed is bounded too.
func TestB3ServerWriteTimeout(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{
		Server: func(s *http.Server) { s.WriteTimeout = 200 * time.Millisecond },
		Config: func(c *expediter.Config) {
			c.Timeouts.Write, c.Timeouts.Answer = time.Second, 4*time.Second
			c.Retry.Attempts = 1
		},
		Respond: func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			switch g.Ask.MaxTokens {
			case 3200:
				s.Text = g.Nonce + strings.Repeat("B", 16<<10)
			case 9:
				return faultbench.Script{End: faultbench.Silent}
			default:
				s.Pace = 100 * time.Millisecond
			}
			return s.Script()
		},
	})
	stopped := h.Ask(faultbench.Request{Stream: true, MaxTokens: 3200})
	_ = stopped.Conn.SetReadBuffer(4 << 10)
	if a := h.Do(t.Context(), faultbench.Request{MaxTokens: 9}); a.Status != 504 {
		t.Errorf("an answer that never comes: %v, status %d: %s", a.Err, a.Status, a.Body)
	}
	h.Members[0].Succeeded(time.Now()) // that one is no concern of the others
	for _, stream := range []bool{true, false} {
		if a := h.Do(t.Context(), faultbench.Request{Stream: stream, MaxTokens: 8}); !a.OK() || a.Finish == "" {
			t.Errorf("stream %t: %v: %s", stream, a.Err, a.Body)
		}
	}
	h.Check()
	stopped.Leave(true)
	stalled := 0
	for _, r := range h.Records() {
		if r.Status == expediter.StatusStalled {
			stalled++
		}
	}
	if stalled != 1 {
		t.Errorf("%d clients were cut off as stalled, want 1", stalled)
	}
}
