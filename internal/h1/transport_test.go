//go:build unix

package h1_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/h1"
)

// config is one with limits that no test runs into.
func config() h1.Config {
	var d net.Dialer
	return h1.Config{Dial: d.DialContext, TLSTimeout: 10 * time.Second, Idle: 8, IdleTimeout: time.Hour, MaxHead: 64 << 10}
}

func open(t *testing.T, cfg h1.Config) *h1.Transport {
	tr := h1.New(cfg)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// end at the end of an answer stands for the end of the connection.
const end = "<end>"

// scripted is a server that answers each request on a connection with the
// next text, byte for byte.
type scripted struct {
	net.Listener
}

func serve(t *testing.T, answers ...string) *scripted {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(c, answers)
		}
	}()
	return s
}

func (s *scripted) answer(c net.Conn, answers []string) {
	defer c.Close()
	br := bufio.NewReader(c)
	for _, a := range answers {
		a, ends := strings.CutSuffix(a, end)
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		io.WriteString(c, a)
		if ends {
			return
		}
	}
	io.Copy(io.Discard, br)
}

func request(t *testing.T, ctx context.Context, url, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Body, r.ContentLength = h1.Body([]byte(body)), int64(len(body))
	}
	return r
}

func TestAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		name, answer string
		status       int
		body         string
		err          error // of the body
		kept         bool
	}{
		{"known length", ok + "Content-Length: 6\r\n\r\nab\r\n\r\n", 200, "ab\r\n\r\n", nil, true},
		{"chunks", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", 200, "ab", nil, true},
		{"nothing", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", nil, true},
		{"length zero", ok + "Content-Length: 0\r\n\r\n", 200, "", nil, true},
		{"informational first", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 2\r\n\r\n\r\n\r\n\r\n", 200, "\r\n", nil, false},
		{"told to close", ok + "Connection: close\r\nContent-Length: 4\r\n\r\n\r\n\r\n", 200, "\r\n\r\n", nil, false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\n\r\n\r\n", 200, "\r\n\r\n", nil, false},
		{"until the end", ok + "\r\nall of it" + end, 200, "all of it", nil, false},
		{"more than announced", ok + "Content-Length: 2\r\n\r\nab\r\n\r\n", 200, "ab", nil, false},
		{"more after the chunks", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n\r\n\r\n", 200, "", nil, false},
		{"cut short", ok + "Content-Length: 9\r\n\r\nab" + end, 200, "ab", io.ErrUnexpectedEOF, false},
		{"cut inside chunks", ok + "Transfer-Encoding: chunked\r\n\r\n9\r\nab" + end, 200, "ab", io.ErrUnexpectedEOF, false},
		{"cut between chunks", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n" + end, 200, "ab", io.ErrUnexpectedEOF, false},
		{"switched", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nbare" + end, 101, "bare", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\r\n\r\n")
			tr := open(t, config())
			resp, err := tr.RoundTrip(request(t, t.Context(), "http://"+s.Addr().String(), "question"))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != tt.status || string(body) != tt.body || err != tt.err {
				t.Errorf("status %d, %q, %v; want %d, %q, %v", resp.StatusCode, body, err, tt.status, tt.body, tt.err)
			}
			resp.Body.Close()
			var reused bool
			trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
			resp, err = tr.RoundTrip(request(t, httptrace.WithClientTrace(t.Context(), trace), "http://"+s.Addr().String(), ""))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if reused != tt.kept {
				t.Errorf("the connection was kept: %v, want %v", reused, tt.kept)
			}
		})
	}
}

func TestBrokenHeads(t *testing.T) {
	for _, answer := range []string{
		end, "HTTP/1.1 200" + end, "SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\nbroken\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
		strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 4<<10),
	} {
		s := serve(t, answer)
		resp, err := open(t, config()).RoundTrip(request(t, t.Context(), "http://"+s.Addr().String(), ""))
		if err == nil {
			t.Errorf("%.30q: status %d, want an error", answer, resp.StatusCode)
			resp.Body.Close()
		}
	}
}

// TestRefusedRequests never reach a connection.
func TestRefusedRequests(t *testing.T) {
	cfg := config()
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, errors.New("no")
	}
	tr := open(t, cfg)
	for name, spoil := range map[string]func(*http.Request){
		"line break in a value":  func(r *http.Request) { r.Header["X"] = []string{"a\r\nB: c"} },
		"zero byte in a value":   func(r *http.Request) { r.Header["X"] = []string{"a\x00"} },
		"colon in a name":        func(r *http.Request) { r.Header["X:"] = []string{"a"} },
		"framing in small":       func(r *http.Request) { r.Header["content-length"] = []string{"7"} },
		"framing of its own":     func(r *http.Request) { r.Header["Transfer-Encoding"] = []string{"chunked"} },
		"space in the method":    func(r *http.Request) { r.Method = "GET /x" },
		"line break in the host": func(r *http.Request) { r.Host = "a\r\nb" },
		"no host":                func(r *http.Request) { r.Host, r.URL.Host = "", "" },
		"unknown length":         func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), -1 },
		"wrong length":           func(r *http.Request) { r.Body, r.ContentLength = h1.Body([]byte("abc")), 2 },
		"less than its length":   func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("abc")), 4 },
		"length without a body":  func(r *http.Request) { r.ContentLength = 4 },
		"scheme":                 func(r *http.Request) { r.URL.Scheme = "ftp" },
	} {
		r := request(t, t.Context(), "http://replica/x", "")
		spoil(r)
		if _, err := tr.RoundTrip(r); err == nil || !strings.HasPrefix(err.Error(), "h1: ") {
			t.Errorf("%s: %v, want an error of this package", name, err)
		}
	}
}

// TestRequestAsItArrives reads requests with net/http's server.
func TestRequestAsItArrives(t *testing.T) {
	type arrival struct {
		method, uri, host, header, ua string
		length                        int64
		body                          []byte
	}
	arrivals := make(chan arrival, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got arrival
		got.method, got.uri, got.host, got.header = r.Method, r.RequestURI, r.Host, strings.Join(r.Header["X-A"], "|")
		got.length, got.ua = r.ContentLength, r.Header.Get("User-Agent")
		got.body, _ = io.ReadAll(r.Body)
		arrivals <- got
	}))
	defer srv.Close()
	tr := open(t, config())
	for _, size := range []int{0, 1, 1000, 64 << 10, 64<<10 + 1, 3 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		for _, held := range []bool{true, false} {
			r := request(t, t.Context(), srv.URL+"/a%2Fb?c=d", "")
			r.Header["X-A"] = []string{"1", "tab\there \xe4"}
			r.Host = "other:1"
			if r.ContentLength = int64(size); size > 0 {
				if r.Body = io.NopCloser(bytes.NewReader(body)); held {
					r.Body = h1.Body(body)
				}
			}
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			got := <-arrivals
			if got.method != "POST" || got.uri != "/a%2Fb?c=d" || got.host != "other:1" || got.header != "1|tab\there \xe4" ||
				got.ua != "" || got.length != int64(size) || !bytes.Equal(got.body, body) {
				t.Errorf("%d bytes: got %.200q", size, fmt.Sprintf("%+v", got))
			}
		}
	}
}

// TestEarlyAnswer: a replica answers without reading the request. Once the
// answer's body is closed nobody reads the request's any more.
func TestEarlyAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.ReadFull(c, make([]byte, 100))
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
		io.Copy(io.Discard, io.LimitReader(c, 1000))
		<-t.Context().Done()
	}()
	body := bytes.Repeat([]byte("x"), 32<<20)
	r := request(t, t.Context(), "http://"+l.Addr().String(), "")
	r.Body, r.ContentLength = h1.Body(body), int64(len(body))
	resp, err := open(t, config()).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	if resp.StatusCode != 413 || string(answer) != "no" || err != nil {
		t.Errorf("status %d, %q, %v", resp.StatusCode, answer, err)
	}
	resp.Body.Close()
	clear(body) // the race detector sees a write under way
}

// TestGoneWhileIdle: a connection that ended, or on which something came
// unasked, carries no request.
func TestGoneWhileIdle(t *testing.T) {
	for name, spoil := range map[string]func(c net.Conn){
		"closed":        func(c net.Conn) { c.Close() },
		"half closed":   func(c net.Conn) { c.(*net.TCPConn).CloseWrite() },
		"bytes unasked": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			conns := make(chan net.Conn, 4)
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			srv.Config.ConnState = func(c net.Conn, s http.ConnState) {
				if s == http.StateNew {
					conns <- c
				}
			}
			srv.Start()
			defer srv.Close()
			var client net.Conn
			reused := false
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { client, reused = i.Conn, i.Reused }})
			tr := open(t, config())
			do := func() {
				resp, err := tr.RoundTrip(request(t, ctx, srv.URL, ""))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			do()
			first := <-conns
			do()
			if !reused {
				t.Fatal("the connection was not kept")
			}
			spoil(first)
			rc, err := client.(syscall.Conn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			_ = rc.Read(arrived) // until the other side's doing has come
			do()
			if reused {
				t.Error("the connection was used again")
			}
		})
	}
}

// TestCancel ends the context in every phase.
func TestCancel(t *testing.T) {
	gone := errors.New("gone")
	for _, phase := range []string{"dial", "send", "head", "body"} {
		t.Run(phase, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				if phase == "send" {
					io.ReadFull(c, make([]byte, 10))
					cancel(gone)
				}
				if phase == "body" {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
				}
				if phase == "head" {
					http.ReadRequest(bufio.NewReader(c))
					cancel(gone)
				}
				io.Copy(io.Discard, c) // until the connection ends
			}()
			cfg := config()
			if phase == "dial" {
				l.Close()
				cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
					cancel(gone)
					<-ctx.Done()
					return nil, ctx.Err()
				}
			}
			size := 10
			if phase == "send" {
				size = 32 << 20
			}
			resp, err := open(t, cfg).RoundTrip(request(t, ctx, "http://"+l.Addr().String(), strings.Repeat("x", size)))
			if phase != "body" {
				if err != gone {
					t.Errorf("%v, want the context's cause", err)
				}
			} else {
				b := make([]byte, 8)
				n, err := resp.Body.Read(b)
				if string(b[:n]) != "ab" || err != nil {
					t.Errorf("%q, %v", b[:n], err)
				}
				cancel(gone)
				if n, err := resp.Body.Read(b); n != 0 || err == nil || err == io.EOF {
					t.Errorf("read %d, %v after the context's end", n, err)
				}
			}
			<-closed
			cancel(nil)
		})
	}
}

func TestHeadTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := config()
	cfg.HeadTimeout = time.Millisecond
	_, err = open(t, cfg).RoundTrip(request(t, t.Context(), "http://"+l.Addr().String(), "x"))
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v, want a time-out", err)
	}
}

// TestTLS checks names, and keeps connections as without TLS.
func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "hello")
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	cfg := config()
	cfg.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	tr := open(t, cfg)
	for i := range 3 {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		resp, err := tr.RoundTrip(request(t, ctx, srv.URL, strings.Repeat("x", 100<<10)))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if string(body) != "hello" || err != nil || reused != (i > 0) {
			t.Errorf("request %d: %q, %v, reused %v", i, body, err, reused)
		}
	}
	other := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	var name x509.HostnameError
	if _, err := tr.RoundTrip(request(t, t.Context(), other, "")); !errors.As(err, &name) {
		t.Errorf("%v, want another name in the certificate", err)
	}
}

// TestReadDoesNotAllocate: one event after another.
func TestReadDoesNotAllocate(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	cfg := config()
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return client, nil }
	event := []byte("10\r\ndata: {\"a\": 1}\n\n\r\n")
	next := make(chan bool)
	go func() {
		http.ReadRequest(bufio.NewReader(server))
		io.WriteString(server, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range next {
			server.Write(event)
		}
	}()
	resp, err := h1.New(cfg).RoundTrip(request(t, t.Context(), "http://replica", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer close(next)
	buf := make([]byte, 4<<10)
	if n := testing.AllocsPerRun(200, func() {
		next <- true
		for got := 0; got < 16; {
			n, err := resp.Body.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
	}); n != 0 {
		t.Errorf("%v allocations per event", n)
	}
}
