//go:build linux && !386

package h1_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/internal/h1"
	"github.com/expediterhq/expediter/internal/rawio"
)

// await reads a body in steps.
func await(t *testing.T, body io.ReadCloser) (got []byte, end error) {
	t.Helper()
	p := make([]byte, 64)
	ok := body.(h1.Stream).Await(func() bool {
		for {
			n, err := body.Read(p)
			got = append(got, p[:n]...)
			if err == rawio.ErrNotYet {
				return false
			}
			if err != nil {
				end = err
				return true
			}
		}
	})
	if !ok {
		t.Error("Await was not possible")
	}
	return got, end
}

// get also tells whether the connection was kept from an earlier request.
func get(ctx context.Context, t *testing.T, tr *h1.Transport, url string) (resp *http.Response, kept bool) {
	t.Helper()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { kept = c.Reused },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err = tr.RoundTrip(r); err != nil {
		t.Fatal(err)
	}
	return resp, kept
}

// TestAwait: every framing and ending is what Read has, and the connection is
// kept when it may be.
func TestAwait(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	tests := []struct {
		name, answer string
		want         string
		end          error
		kept         bool
	}{
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello", io.EOF, true},
		{"more than a step's room", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + long, long, io.EOF, true},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\n" + long + end, long, io.EOF, false},
		{"broken off", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhe" + end, "hellohe", io.ErrUnexpectedEOF, false},
		{"no body", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", io.EOF, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.answer, test.answer)
			tr := open(t, config())
			for i := range 2 {
				resp, kept := get(t.Context(), t, tr, "http://"+s.Addr().String())
				got, end := await(t, resp.Body)
				if string(got) != test.want || !errors.Is(end, test.end) {
					t.Fatalf("%q, %v; want %q, %v", got, end, test.want, test.end)
				}
				if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, test.end) {
					t.Errorf("Read after the end: %d, %v", n, err)
				}
				if kept != (test.kept && i > 0) {
					t.Errorf("request %d: kept %v", i, kept)
				}
				resp.Body.Close()
			}
		})
	}
}

// TestAwaitCancelled: a context that ends breaks the wait off, and the other
// side is told while a step is still at work.
func TestAwaitCancelled(t *testing.T) {
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, _ := get(ctx, t, open(t, config()), s.URL)
	steps := 0
	var last error
	resp.Body.(h1.Stream).Await(func() bool {
		steps++
		_, last = resp.Body.Read(make([]byte, 1))
		if steps == 1 {
			cancel()
			<-gone
			return false
		}
		return true
	})
	if !errors.Is(last, net.ErrClosed) || steps != 2 {
		t.Errorf("%d steps, the last with %v", steps, last)
	}
}

// TestAwaitAborted: after its context has ended a step gets one more piece of what
// had come before, and nothing of the end with which the other side answers.
func TestAwaitAborted(t *testing.T) {
	sent, gone := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", 10_000))
		w.(http.Flusher).Flush()
		close(sent)
		<-r.Context().Done()
		close(gone)
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, _ := get(ctx, t, open(t, config()), s.URL)
	<-sent
	var after []error
	resp.Body.(h1.Stream).Await(func() bool {
		if _, err := resp.Body.Read(make([]byte, 100)); err != nil {
			t.Errorf("the first read: %v", err)
		}
		cancel()
		<-gone
		s.Close() // waits for the end of the answer to have been sent
		for range 3 {
			_, err := resp.Body.Read(make([]byte, 64))
			after = append(after, err)
		}
		return true
	})
	for i, err := range after {
		if i == 0 && err == nil {
			continue
		}
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("read %d: %v, want %v", i, err, net.ErrClosed)
		}
	}
}

// TestAwaitAbortedIsNotComplete: nor does the other side's answer to the end of the
// context look like the end of what came, where all of that had been read.
func TestAwaitAbortedIsNotComplete(t *testing.T) {
	const sent = "half of it"
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, sent)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, _ := get(ctx, t, open(t, config()), s.URL)
	var got []byte
	p := make([]byte, 64)
	read := func() error {
		n, err := resp.Body.Read(p)
		got = append(got, p[:n]...)
		return err
	}
	resp.Body.(h1.Stream).Await(func() bool {
		for len(got) < len(sent) {
			if err := read(); err == rawio.ErrNotYet {
				return false
			} else if err != nil {
				t.Errorf("before the end of the context: %v", err)
				return true
			}
		}
		cancel()
		<-gone
		s.Close() // waits for the end of the answer to have been sent
		for i := range 3 {
			if err := read(); string(got) != sent || !errors.Is(err, net.ErrClosed) {
				t.Errorf("read %d: %q, %v, want %v", i, got, err, net.ErrClosed)
			}
		}
		return true
	})
}

// TestAwaitPanic: the connection of a step that panics is closed.
func TestAwaitPanic(t *testing.T) {
	closed := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(closed)
	}))
	defer s.Close()
	resp, _ := get(t.Context(), t, open(t, config()), s.URL)
	func() {
		defer func() {
			if recover() != "oops" {
				t.Error("the panic was lost")
			}
		}()
		defer resp.Body.Close()
		resp.Body.(h1.Stream).Await(func() bool { panic("oops") })
	}()
	<-closed
}

// TestAwaitNotPossible: with TLS, and after the end.
func TestAwaitNotPossible(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer s.Close()
	cfg := config()
	cfg.TLS = &tls.Config{InsecureSkipVerify: true}
	resp, _ := get(t.Context(), t, open(t, cfg), s.URL)
	never := func() bool { t.Error("a step"); return true }
	if resp.Body.(h1.Stream).Await(never) {
		t.Error("Await with TLS")
	}
	if got, err := io.ReadAll(resp.Body); !bytes.Equal(got, []byte("hello")) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if resp.Body.(h1.Stream).Await(never) {
		t.Error("Await after the end")
	}
}
