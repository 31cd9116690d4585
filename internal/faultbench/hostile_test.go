package faultbench_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
)

// smuggled are requests whose framing two parsers may read in two ways. %s is
// the usual head without framing; HIDDEN is the request that must not get in.
func smuggled(h *faultbench.House) map[string]string {
	small := faultbench.Request{MaxTokens: 1}
	body, _ := small.Body()
	head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n", h.Key)
	inner := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	m := map[string]string{
		"CL and TE":             head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", len(inner)) + inner,
		"TE and CL":             head + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunk + "0\r\n\r\n" + inner,
		"two CL":                head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef" + inner,
		"two CL alike":          head + fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d\r\n\r\n%s", len(body), len(body), body),
		"CL list":               head + "Content-Length: 5, 6\r\n\r\nabcdef" + inner,
		"CL with sign":          head + fmt.Sprintf("Content-Length: +%d\r\n\r\n%s", len(body), body) + inner,
		"CL in hex":             head + "Content-Length: 0x10\r\n\r\n" + inner,
		"CL with space":         head + "Content-Length: 1 0\r\n\r\n" + inner,
		"CL negative":           head + "Content-Length: -1\r\n\r\n" + inner,
		"CL overflow":           head + "Content-Length: 18446744073709551617\r\n\r\n" + inner,
		"CL empty":              head + "Content-Length:\r\n\r\n" + inner,
		"space before colon":    head + "Transfer-Encoding : chunked\r\n\r\n" + chunk + "0\r\n\r\n" + inner,
		"tab before colon":      head + "Transfer-Encoding\t: chunked\r\n\r\n" + chunk + "0\r\n\r\n",
		"obs-fold":              head + "Transfer-Encoding:\r\n chunked\r\n\r\n" + chunk + "0\r\n\r\n" + inner,
		"obs-fold first":        "POST /v1/chat/completions HTTP/1.1\r\n folded: a\r\nHost: g\r\n\r\n" + inner,
		"NUL in header":         head + "X-A: a\x00b\r\nContent-Length: 2\r\n\r\n{}" + inner,
		"NUL in name":           head + "X\x00A: b\r\nContent-Length: 2\r\n\r\n{}" + inner,
		"LF in value":           head + "X-A: a\nTransfer-Encoding: chunked\r\n\r\n" + chunk + "0\r\n\r\n",
		"CR in value":           head + "X-A: a\rTransfer-Encoding: chunked\r\n\r\n" + chunk + "0\r\n\r\n",
		"no host":               "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + inner,
		"two hosts":             head + "Host: other\r\nContent-Length: 0\r\n\r\n" + inner,
		"absolute URL":          strings.Replace(inner, "/v1/chat", "http://other/v1/chat", 1),
		"HTTP/1.0":              strings.Replace(inner, "HTTP/1.1", "HTTP/1.0", 1),
		"HTTP/1.0 with TE":      strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n" + chunk + "0\r\n\r\n" + inner,
		"HTTP/0.9":              "POST /v1/chat/completions\r\n\r\n" + inner,
		"HTTP/3.0":              strings.Replace(inner, "HTTP/1.1", "HTTP/3.0", 1),
		"HTTP/1.1 lower case":   strings.Replace(inner, "HTTP/1.1", "http/1.1", 1),
		"method of lower case":  strings.Replace(inner, "POST", "post", 1),
		"two spaces":            strings.Replace(inner, "POST /", "POST  /", 1),
		"dots in the path":      strings.Replace(inner, "/v1/chat", "/x/../v1/chat", 1),
		"encoded slash":         strings.Replace(inner, "/v1/chat", "/v1%2fchat", 1),
		"double slash":          strings.Replace(inner, "/v1/chat", "//v1/chat", 1),
		"empty first line":      "\r\n" + inner,
		"HTTP/2 preface":        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + inner,
		"Upgrade":               head + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nContent-Length: " + fmt.Sprint(len(body)) + "\r\n\r\n" + body,
		"body of GET":           "GET /v1/models HTTP/1.1\r\nHost: g\r\nContent-Length: " + fmt.Sprint(len(inner)) + "\r\n\r\n" + inner,
		"trailer":               head + "Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n" + chunk + "0\r\nAuthorization: x\r\nContent-Length: 5\r\n\r\n",
		"Expect and more":       head + fmt.Sprintf("Expect: 100-continue, 200-ok\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"header without colon":  head + "Nonsense\r\nContent-Length: 0\r\n\r\n" + inner,
		"header without name":   head + ": x\r\nContent-Length: 0\r\n\r\n" + inner,
		"non-ASCII header name": head + "Ｃontent-Length: 5\r\nContent-Length: 0\r\n\r\n" + inner,
	}
	for _, te := range []string{
		"chunked, identity", "identity, chunked", "xchunked", "chunkedx", "chunked\r", "chunked\v", "\x0bchunked", "\"chunked\"", "chunked;q=1",
		"gzip, chunked", "chunked, chunked", "CHUNKED", "", ",chunked", "chunked,", "identity", "cow", "ſchunked",
	} {
		m["TE: "+te] = head + "Transfer-Encoding: " + te + "\r\nContent-Length: 3\r\n\r\n" + chunk + "0\r\n\r\n" + inner
		m["only TE: "+te] = head + "Transfer-Encoding: " + te + "\r\n\r\n" + chunk + "0\r\n\r\n" + inner
	}
	m["two TE"] = head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunk + "0\r\n\r\n" + inner
	m["two TE alike"] = head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + "0\r\n\r\n" + inner
	for name, size := range map[string]string{
		"bare LF after": "%x\n", "with extension": "%x;a=b\r\n", "with quoted extension": "%x;a=\"\r\n0\r\n\r\n\"\r\n", "with LF in extension": "%x;a\n\r\n",
		"with sign": "+%x\r\n", "with 0x": "0x%x\r\n", "with space before": " %x\r\n", "with space after": "%x \r\n", "with tab": "%x\t\r\n", "with underscore": "%x_0\r\n",
		"huge": "fffffffffffffffff%x\r\n", "of 2^64": "10000000000000000\r\n%.0s", "negative": "-%x\r\n", "empty": "\r\n%.0s", "with CR CR": "%x\r\r\n", "of many zeros": strings.Repeat("0", 30) + "%x\r\n",
		"with long extension": "%x;" + strings.Repeat("e", 20_000) + "\r\n",
	} {
		m["chunk size "+name] = head + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf(size, len(body)) + body + "\r\n0\r\n\r\n" + inner
	}
	m["chunk without CRLF"] = head + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s", len(body), body) + "0\r\n\r\n" + inner
	m["chunk too long"] = head + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%sXX\r\n0\r\n\r\n", len(body), body) + inner
	m["last chunk with LF"] = head + "Transfer-Encoding: chunked\r\n\r\n" + chunk + "0\n\n" + inner
	m["last chunk alone"] = head + "Transfer-Encoding: chunked\r\n\r\n" + chunk + "0\r\n" + inner
	return m
}

// TestN4Smuggling: a replica never gets a request that the gateway did not
// count, and each it gets is framed anew.
func TestN4Smuggling(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{
		Server: func(s *http.Server) { s.ReadHeaderTimeout, s.IdleTimeout = 200*time.Millisecond, 20*time.Millisecond },
		Config: func(c *expediter.Config) { c.Timeouts.Body = 200 * time.Millisecond },
	})
	corpus := smuggled(h)
	if len(corpus) < 100 {
		t.Fatalf("%d variants", len(corpus))
	}
	for name, raw := range corpus {
		l := h.Dial()
		_ = l.Conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(l.Conn, raw) // may be cut off before its end
		answers, err := readAnswers(l.R)
		if err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: neither answered nor closed: %v", name, err)
		}
		for _, status := range answers {
			if status >= 500 && status != 505 && status != 501 {
				t.Errorf("%s: status %d", name, status)
			}
		}
		l.Leave(false)
	}
	h.Check()
	for _, g := range h.Ledger.All() {
		raw := string(g.Raw)
		if strings.Count(raw, "POST ") != 1 || strings.Count(raw, "Content-Length:") != 1 || strings.Contains(raw, "Transfer-Encoding") || strings.Contains(raw, h.Key) ||
			!strings.HasSuffix(raw, "\r\n\r\n"+string(g.Body)) {
			t.Errorf("the replica got %q", raw)
		}
	}
	t.Logf("%d variants, %d requests accepted", len(corpus), h.Ledger.Len())
}

// readAnswers reads answers until the connection ends.
func readAnswers(br *bufio.Reader) (statuses []int, err error) {
	for {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				err = nil
			}
			return statuses, err
		}
		statuses = append(statuses, resp.StatusCode)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return statuses, err
		}
		_ = resp.Body.Close()
	}
}

// TestO5BodyBombs: a body above the limit is refused at the limit, all bodies
// together stay within theirs, and what can be told from the head is told
// before the body is read.
func TestO5BodyBombs(t *testing.T) {
	const limit, bodies = 1 << 20, 8 << 20
	h := faultbench.Open(t, faultbench.Options{
		Config:  func(c *expediter.Config) { c.Limits.Body, c.Limits.Bodies = limit, bodies; c.Scrape = -1 },
		Replica: func(_ int, r *faultbench.Replica) { r.KV = 1 << 30 },
	})
	t.Run("O5 announced", func(t *testing.T) {
		l := h.Dial()
		fmt.Fprint(l.Conn, h.Head(2_000_000_000))
		wantRefusal(t, l, 413)
	})
	t.Run("O5 wrong key", func(t *testing.T) {
		l := h.Dial()
		fmt.Fprint(l.Conn, strings.Replace(h.Head(2_000_000_000), h.Key, "xp-wrong", 1))
		wantRefusal(t, l, 401)
	})
	t.Run("O5 endless", func(t *testing.T) {
		l := h.Dial()
		fmt.Fprint(l.Conn, chunkedHead(h))
		go func() {
			junk := strings.Repeat("x", 4096)
			for {
				if _, err := fmt.Fprintf(l.Conn, "1000\r\n%s\r\n", junk); err != nil {
					return
				}
			}
		}()
		wantRefusal(t, l, 413)
	})
	t.Run("O5 chunks of one byte", func(t *testing.T) {
		r := faultbench.Request{MaxTokens: 2, Pad: 200_000}
		body, _ := r.Body()
		l := h.Dial()
		w := bufio.NewWriter(l.Conn)
		fmt.Fprint(w, chunkedHead(h))
		for i := range body {
			fmt.Fprintf(w, "1\r\n%c\r\n", body[i])
		}
		fmt.Fprint(w, "0\r\n\r\n")
		if err := w.Flush(); err != nil {
			t.Error(err)
		}
		resp, err := http.ReadResponse(l.R, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("%v, %v", resp, err)
		}
		l.Leave(false)
	})
	t.Run("O5 all together", func(t *testing.T) {
		var before, during runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var open []*faultbench.Leaver
		for range 200 {
			l := h.Dial()
			fmt.Fprint(l.Conn, h.Head(limit))
			_, _ = io.WriteString(l.Conn, strings.Repeat(" ", limit/2)) // those that are refused may not take it
			open = append(open, l)
		}
		h.Eventually("refusals", func() bool { return h.Handler.InFlight() <= bodies/limit })
		runtime.GC()
		runtime.ReadMemStats(&during)
		if more := int64(during.HeapAlloc) - int64(before.HeapAlloc); more > 3*bodies {
			t.Errorf("200 bodies take %d bytes, with a limit of %d", more, bodies)
		}
		for _, l := range open {
			l.Leave(true)
		}
		h.Check()
	})
	if a := h.Do(t.Context(), faultbench.Request{MaxTokens: 2, Pad: limit - 1000}); !a.OK() {
		t.Errorf("afterwards: %v, status %d: %s", a.Err, a.Status, a.Body)
	}
}

func chunkedHead(h *faultbench.House) string {
	return strings.Replace(h.Head(0), "Content-Length: 0", "Transfer-Encoding: chunked", 1)
}

func wantRefusal(t *testing.T, l *faultbench.Leaver, status int) {
	t.Helper()
	_ = l.Conn.SetDeadline(time.Now().Add(10 * time.Second))
	resp, err := http.ReadResponse(l.R, nil)
	if err != nil || resp.StatusCode != status {
		t.Errorf("%v, %v; want %d", resp, err, status)
		return
	}
	if status == 413 && !resp.Close {
		t.Error("the connection is kept")
	}
	l.Leave(false)
}

// TestO7Slowloris: peers that send next to nothing are let go, whatever they
// are sending, and nobody else is slower for it.
func TestO7Slowloris(t *testing.T) {
	each := full(5, 230) // of nine kinds
	h := faultbench.Open(t, faultbench.Options{
		Server: func(s *http.Server) { s.ReadHeaderTimeout = slowLimit },
		Config: func(c *expediter.Config) { c.Timeouts.Body = slowLimit },
	})
	head := h.Head(1000)
	kinds := map[string]string{
		"O7 half a head":             head[:40],
		"O7 body":                    head + "{",
		"O7 body, chunked":           chunkedHead(h) + "1\r\n{\r\n",
		"O7 body, wrong key":         strings.Replace(head, h.Key, "xp-wrong", 1) + "{",
		"O7 body, wrong type":        strings.Replace(head, "application/json", "text/plain", 1) + "{",
		"O7 body, unknown path":      strings.Replace(head, "/v1/chat/completions", "/v1/embeddings", 1) + "{",
		"O7 body of a list":          strings.Replace(head, "/v1/chat/completions", "/v1/models", 1) + "{",
		"O7 body, wrong method":      strings.Replace(head, "POST", "PUT", 1) + "{",
		"O7 body, wrong key, chunks": strings.Replace(chunkedHead(h), h.Key, "xp-wrong", 1) + "1\r\n{\r\n",
	}
	var wg sync.WaitGroup
	for name, text := range kinds {
		for range each {
			wg.Go(func() {
				l := h.Dial()
				defer l.Leave(true)
				fmt.Fprint(l.Conn, text)
				_ = l.Conn.SetDeadline(time.Now().Add(slowEnd))
				if _, err := readAnswers(l.R); err != nil && strings.Contains(err.Error(), "timeout") {
					t.Errorf("%s: still open after %v", name, slowEnd)
				}
			})
		}
	}
	for range 20 {
		if a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 5}); !a.OK() {
			t.Errorf("honest traffic: %v, status %d: %s", a.Err, a.Status, a.Body)
		}
	}
	wg.Wait()
}

// TestO7LimitEndsWithTheBody: the time for the body does not end a stream
// that is longer.
func TestO7LimitEndsWithTheBody(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{
		Config: func(c *expediter.Config) { c.Timeouts.Body = 100 * time.Millisecond },
		Respond: func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			s.Pace = 20 * time.Millisecond
			return s.Script()
		},
	})
	for _, stream := range []bool{true, false} {
		if a := h.Do(context.Background(), faultbench.Request{Stream: stream, MaxTokens: 20}); !a.OK() {
			t.Errorf("%v: %s", a.Err, a.Body)
		}
	}
}
