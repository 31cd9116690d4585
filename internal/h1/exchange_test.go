//go:build unix

package h1_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

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

// told is a connection whose other side is told that it ends, and has the last
// word, as with the alert of TLS or half a close.
type told struct {
	net.Conn
	last func()
}

func (c told) Close() error {
	c.last()
	return c.Conn.Close()
}

// TestAbortedIsNotComplete: an answer that its context ends does not look complete
// because the other side then ends it in good order.
func TestAbortedIsNotComplete(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	_ = far.SetDeadline(time.Now().Add(10 * time.Second)) // a hang fails the test
	cfg := config()
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
		return told{near, sync.OnceFunc(func() { _, _ = io.WriteString(far, "0\r\n\r\n") })}, nil
	}
	var replica sync.WaitGroup
	defer replica.Wait()
	replica.Go(func() {
		if _, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
			_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := open(t, cfg).RoundTrip(request(t, ctx, "http://replica", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("the rest is %q, %v, want %v", rest, err, net.ErrClosed)
	}
}

// unwritten is a connection that tells of its writes that they failed, although
// they were made.
type unwritten struct {
	net.Conn
	err error
}

func (c unwritten) Write(p []byte) (int, error) {
	n, _ := c.Conn.Write(p)
	return n, c.err
}

// TestHeadError: what came instead of a head is told from a connection that was
// lost, and either from one on which nothing came at all.
func TestHeadError(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/pl"
	failed := errors.New("the write failed")
	for _, tt := range []struct {
		name, answer string
		write        error
		want         *h1.HeadError // nil: the write's error
		is           error         // what it wraps; nil: any
	}{
		{"nothing, then the end", end, nil, &h1.HeadError{}, io.ErrUnexpectedEOF},
		{"nothing in time", "", nil, &h1.HeadError{}, os.ErrDeadlineExceeded},
		{"half a head, then the end", head + end, nil, &h1.HeadError{Begun: true}, io.ErrUnexpectedEOF},
		{"half a head, and no more in time", head, nil, &h1.HeadError{Begun: true}, os.ErrDeadlineExceeded},
		{"informational, then the end", "HTTP/1.1 100 Continue\r\n\r\n" + end, nil, &h1.HeadError{Begun: true}, io.ErrUnexpectedEOF},
		{"not HTTP", "SSH-2.0-OpenSSH_9\r\n\r\n", nil, &h1.HeadError{Begun: true, Malformed: true}, nil},
		{"not HTTP, then the end", "SSH-2.0-OpenSSH_9\r\n\r\n" + end, nil, &h1.HeadError{Begun: true, Malformed: true}, nil},
		{"a field that is none", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", nil, &h1.HeadError{Begun: true, Malformed: true}, nil},
		{"above the limit", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<10) + "\r\n\r\n", nil, &h1.HeadError{Begun: true, Malformed: true}, nil},
		{"informational above the limit", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 50), nil, &h1.HeadError{Begun: true, Malformed: true}, nil},
		{"write failed, half a head", head + end, failed, &h1.HeadError{Begun: true}, io.ErrUnexpectedEOF},
		{"write failed, nothing", end, failed, nil, failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			cfg := config()
			cfg.MaxHead, cfg.HeadTimeout = 1<<10, time.Minute
			if tt.is == os.ErrDeadlineExceeded {
				cfg.HeadTimeout = 100 * time.Millisecond
			}
			if tt.write != nil {
				dial := cfg.Dial
				cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := dial(ctx, network, address)
					return unwritten{c, tt.write}, err
				}
			}
			resp, err := open(t, cfg).RoundTrip(request(t, t.Context(), "http://"+s.Addr().String(), "question"))
			if err == nil {
				resp.Body.Close()
				t.Fatalf("status %d, want an error", resp.StatusCode)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("RoundTrip = %v, want one that wraps %v", err, tt.is)
			}
			var got *h1.HeadError
			if errors.As(err, &got) != (tt.want != nil) {
				t.Fatalf("RoundTrip = %v, a *HeadError: %t, want %t", err, got != nil, tt.want != nil)
			}
			if got != nil && (got.Begun != tt.want.Begun || got.Malformed != tt.want.Malformed) {
				t.Errorf("begun %t, malformed %t, want %t, %t: %v", got.Begun, got.Malformed, tt.want.Begun, tt.want.Malformed, err)
			}
		})
	}
}
