package sse_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/sse"
)

// countingConn counts the writes of a server's connection.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

type countingListener struct {
	net.Listener
	writes atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{c, &l.writes}, nil
}

// directServer serves handler with ConnContext.
func directServer(t *testing.T, secure bool, handler http.HandlerFunc) (*httptest.Server, *countingListener) {
	srv := httptest.NewUnstartedServer(handler)
	l := &countingListener{Listener: srv.Listener}
	srv.Listener = l
	srv.Config.ConnContext = sse.ConnContext
	if secure {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv, l
}

// TestDirectIsTheSame sends bodies of random pieces, several on a connection,
// and reads with net/http's client what it reads without ConnContext.
func TestDirectIsTheSame(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var want bytes.Buffer
		srv, _ := directServer(t, secure, func(w http.ResponseWriter, r *http.Request) {
			sse.SetHeader(w.Header())
			sw := newWriter(t, w, sse.WriterConfig{Request: r})
			defer sw.Close()
			want.Reset()
			for range rand.IntN(20) {
				p := bytes.Repeat([]byte{"0a\r\n"[rand.IntN(4)]}, rand.IntN([]int{3, 300, 4096, 4097, 200_000}[rand.IntN(5)]+1))
				want.Write(p)
				if n, err := sw.Write(p); n != len(p) || err != nil {
					t.Errorf("Write: %d, %v, want %d", n, err, len(p))
				}
				if rand.IntN(3) > 0 {
					if err := sw.Flush(); err != nil {
						t.Errorf("Flush: %v", err)
					}
				}
			}
		})
		for range 50 {
			resp, err := srv.Client().Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Fatalf("TLS %v: %d bytes, %v; want %d", secure, len(got), err, want.Len())
			}
			resp.Body.Close()
		}
	}
}

// TestDirectWritesOnce: each event is one write on the connection, without an
// allocation.
func TestDirectWritesOnce(t *testing.T) {
	const events = 100
	var l *countingListener
	var each, allocs float64
	srv, l := directServer(t, false, func(w http.ResponseWriter, r *http.Request) {
		sw := newWriter(t, w, sse.WriterConfig{Request: r})
		defer sw.Close()
		event := []byte("data: " + strings.Repeat("x", 200) + "\n\n")
		send := func() {
			if _, err := sw.Write(event); err != nil {
				t.Error(err)
			}
			if err := sw.Flush(); err != nil {
				t.Error(err)
			}
		}
		send()
		before := l.writes.Load()
		rounds := 0.0
		for allocs = 1; allocs > 0 && rounds < 5; rounds++ { // others allocate beside us at times
			allocs = testing.AllocsPerRun(events, send)
		}
		each = float64(l.writes.Load()-before) / (rounds * (events + 1))
	})
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if each != 1 || allocs != 0 {
		t.Errorf("%v writes and %v allocations per event, want 1 and 0", each, allocs)
	}
}

// wrapped is a ResponseWriter of a middleware.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// upper is a middleware that changes what is written.
type upper struct{ http.ResponseWriter }

func (w upper) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write(bytes.ToUpper(p))
	return len(p), err
}

func (w upper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestNotDirect: where chunks are not ours to write, everything goes the usual
// way, through whatever wraps the ResponseWriter.
func TestNotDirect(t *testing.T) {
	two := func(w http.ResponseWriter, r *http.Request) {
		sw := newWriter(t, w, sse.WriterConfig{Request: r})
		defer sw.Close()
		for range 2 {
			if _, err := sw.Write([]byte("ab")); err != nil {
				t.Error(err)
			}
			if err := sw.Flush(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, tt := range []struct {
		name, request, want string
		handler             http.HandlerFunc
	}{
		{"wrapped", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "2\r\nAB\r\n2\r\nAB\r\n0\r\n\r\n",
			func(w http.ResponseWriter, r *http.Request) { two(upper{wrapped{w}}, r) }},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "abab", two},
		{"known length", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "abab",
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "4")
				two(w, r)
			}},
		{"told not to", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "2\r\nab\r\n2\r\nab\r\n0\r\n\r\n",
			func(w http.ResponseWriter, r *http.Request) { two(w, r.WithContext(t.Context())) }},
		{"direct", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "2\r\nab\r\n2\r\nab\r\n0\r\n\r\n", two},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv, _ := directServer(t, false, tt.handler)
			c, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, tt.request); err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(c)
			if _, body, _ := bytes.Cut(all, []byte("\r\n\r\n")); err != nil || string(body) != tt.want {
				t.Errorf("body %q, %v; want %q", body, err, tt.want)
			}
		})
	}
}

// TestDirectAbort: an aborted response has no end, and its connection closes.
func TestDirectAbort(t *testing.T) {
	srv, _ := directServer(t, false, func(w http.ResponseWriter, r *http.Request) {
		sw := newWriter(t, w, sse.WriterConfig{Request: r})
		defer sw.Close()
		for range 2 {
			_, _ = sw.Write([]byte("data: a\n\n"))
			_ = sw.Flush()
		}
		if err := sw.Abort(); err != nil {
			t.Error(err)
		}
		if _, err := sw.Write([]byte("data: b\n\n")); !errors.Is(err, sse.ErrAborted) {
			t.Errorf("Write after Abort: %v, want ErrAborted", err)
		}
	})
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if string(got) != "data: a\n\ndata: a\n\n" || err != io.ErrUnexpectedEOF {
		t.Errorf("%q, %v; want two events and an unexpected end", got, err)
	}
}

// TestDirectFailedWrite: a body in which a write failed has no end either, also
// where nothing but that write would have failed; and the request's context ends.
func TestDirectFailedWrite(t *testing.T) {
	for _, size := range []int{10, 64 << 10} {
		srv, _ := directServer(t, false, func(w http.ResponseWriter, r *http.Request) {
			sw := newWriter(t, w, sse.WriterConfig{Request: r})
			defer sw.Close()
			_, _ = sw.Write([]byte("data: a\n\n"))
			_ = sw.Flush()
			rc := http.NewResponseController(w)
			if err := rc.SetWriteDeadline(time.Unix(1, 0)); err != nil {
				t.Error(err)
			}
			if _, err := sw.Write(make([]byte, size)); err == nil {
				t.Error("no error of a write after its deadline")
			}
			_ = rc.SetWriteDeadline(time.Time{})
			<-r.Context().Done()
		})
		resp, err := srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if string(got) != "data: a\n\n" || err == nil {
			t.Errorf("%q, %v; want one event and no end", got, err)
		}
		resp.Body.Close()
	}
}

// TestDirectWithoutBody: a response that must not have a body gets none.
func TestDirectWithoutBody(t *testing.T) {
	srv, _ := directServer(t, false, func(w http.ResponseWriter, r *http.Request) {
		sw := newWriter(t, w, sse.WriterConfig{Request: r})
		defer sw.Close()
		w.WriteHeader(http.StatusNoContent)
		if err := sw.Flush(); err != nil {
			t.Error(err)
		}
		if _, err := sw.Write([]byte("data: a\n\n")); !errors.Is(err, http.ErrBodyNotAllowed) {
			t.Errorf("Write after a 204 = %v, want ErrBodyNotAllowed", err)
		}
	})
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(c)
	if _, body, _ := bytes.Cut(all, []byte("\r\n\r\n")); err != nil || len(body) > 0 {
		t.Errorf("body %q, %v; want none", body, err)
	}
}

// TestDirectStalled: a client that stops reading is cut off.
func TestDirectStalled(t *testing.T) {
	done := make(chan error, 1)
	srv, _ := directServer(t, false, func(w http.ResponseWriter, r *http.Request) {
		sw := newWriter(t, w, sse.WriterConfig{Request: r, Timeout: 50 * time.Millisecond})
		defer sw.Close()
		event := bytes.Repeat([]byte("x"), 64<<10)
		var err error
		for err == nil {
			if _, err = sw.Write(event); err == nil {
				err = sw.Flush()
			}
		}
		done <- err
	})
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, sse.ErrStalled) {
		t.Errorf("%v, want ErrStalled", err)
	}
}

// TestDirectClientLeaves: net/http still tells the handler.
func TestDirectClientLeaves(t *testing.T) {
	gone := make(chan struct{})
	srv, _ := directServer(t, false, func(w http.ResponseWriter, r *http.Request) {
		sw := newWriter(t, w, sse.WriterConfig{Request: r})
		defer sw.Close()
		for range 2 {
			_, _ = sw.Write([]byte("data: a\n\n"))
			_ = sw.Flush()
		}
		<-r.Context().Done()
		close(gone)
	})
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('d'); err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-gone
}
