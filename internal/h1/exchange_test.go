//go:build unix

package h1_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"testing"

	"github.com/expediterhq/expediter/internal/h1"
)

// TestBody: one that was closed in the middle does not end as if it were
// complete, and one that was not begun is still whole.
func TestBody(t *testing.T) {
	b := h1.Body([]byte("abcd"))
	p := make([]byte, 3)
	b.Close()
	if n, err := b.Read(p); string(p[:n]) != "abc" || err != nil {
		t.Errorf("Read = %q, %v", p[:n], err)
	}
	if rest, err := io.ReadAll(b); string(rest) != "d" || err != nil {
		t.Errorf("the rest is %q, %v", rest, err)
	}
	b = h1.Body([]byte("abcd"))
	_, _ = b.Read(p)
	b.Close()
	if n, err := b.Read(p); n != 0 || err != http.ErrBodyReadAfterClose {
		t.Errorf("Read after Close = %d, %v, want ErrBodyReadAfterClose", n, err)
	}
}

// TestBodyIsNotHeld: the request that an answer belongs to does not keep what was
// sent.
func TestBodyIsNotHeld(t *testing.T) {
	s := serve(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	r := request(t, t.Context(), "http://"+s.Addr().String(), "question")
	resp, err := open(t, config()).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if n, err := r.Body.Read(make([]byte, 9)); n != 0 || err != http.ErrBodyReadAfterClose {
		t.Errorf("Read after RoundTrip = %d, %v, want ErrBodyReadAfterClose", n, err)
	}
}

// TestBodyClosedWhileRead: net/http's transport for HTTP/2 closes a body that
// it still reads, when the answer comes early.
func TestBodyClosedWhileRead(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 1))
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	body := bytes.Repeat([]byte("x"), 4<<20)
	for range 20 {
		r := request(t, t.Context(), srv.URL, "")
		r.Body, r.ContentLength = h1.Body(body), int64(len(body))
		resp, err := srv.Client().Transport.RoundTrip(r)
		if err != nil {
			continue // the reset may come before the answer
		}
		if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d over %s, want 413 over HTTP/2", resp.StatusCode, resp.Proto)
		}
		resp.Body.Close()
	}
	var wg sync.WaitGroup
	b := h1.Body(body)
	wg.Go(func() { _, _ = io.Copy(io.Discard, b) })
	b.Close()
	wg.Wait()
}

// corked is a connection whose writes go out together.
type corked struct {
	net.Conn
	on   bool
	held bytes.Buffer
}

func (c *corked) Write(p []byte) (int, error) {
	if c.on {
		return c.held.Write(p)
	}
	return c.Conn.Write(p)
}

// TestUnaskedInsideTLS: bytes that came together with the answer are not seen on
// the socket any more, and are no answer to the next request.
func TestUnaskedInsideTLS(t *testing.T) {
	made := httptest.NewTLSServer(nil)
	made.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				cork := &corked{Conn: raw}
				c := tls.Server(cork, &tls.Config{Certificates: made.TLS.Certificates})
				defer c.Close()
				if _, err := c.Read(make([]byte, 4<<10)); err != nil {
					return
				}
				cork.on = true
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nasked")
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nunasked")
				_, _ = raw.Write(cork.held.Bytes())
				_, _ = io.Copy(io.Discard, raw)
			}()
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(made.Certificate())
	cfg := config()
	cfg.TLS = &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}
	tr := open(t, cfg)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			if i.Reused {
				t.Error("a connection with an answer to nothing was used again")
			}
		}})
		resp, err := tr.RoundTrip(request(t, ctx, "https://"+l.Addr().String(), ""))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); string(body) != "asked" || err != nil {
			t.Errorf("answer %q, %v", body, err)
		}
		cancel()
	}
}

// TestFree: the bytes are free once they are on their way, or nobody sends them
// any more.
func TestFree(t *testing.T) {
	s := serve(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	tr := open(t, config())
	for _, size := range []int{10, 200 << 10} {
		c := h1.Body(bytes.Repeat([]byte("x"), size))
		if c.Free() {
			t.Error("free before it was sent")
		}
		r := request(t, t.Context(), "http://"+s.Addr().String(), "")
		r.Body, r.ContentLength = c, int64(size)
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if !c.Free() {
			t.Errorf("%d bytes are not free after the answer", size)
		}
	}
	c := h1.Body([]byte("abc"))
	c.Close()
	if c.Free() {
		t.Error("free when closed before it was begun: it may be sent again")
	}
	_, _ = c.Read(make([]byte, 1))
	if c.Free() {
		t.Error("free in the middle of being read")
	}
	c.Close()
	if !c.Free() {
		t.Error("not free when closed after it was begun")
	}
}
