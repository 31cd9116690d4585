package sse_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/expediterhq/expediter/sse"
)

// protocols of a client's connection.
var protocols = []string{"HTTP/1.1", "HTTP/2.0"}

// serve starts a server on a real socket, with TLS for HTTP/2, and returns
// what gets from it.
func serve(t *testing.T, proto string, h http.Handler) func() *http.Response {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	if proto == "HTTP/2.0" {
		srv.EnableHTTP2 = true
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return func() *http.Response {
		t.Helper()
		resp, err := srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.Proto != proto {
			t.Fatalf("protocol is %s, want %s", resp.Proto, proto)
		}
		return resp
	}
}

// forward is a gateway in its smallest form: it relays what a replica sends.
func forward(t *testing.T, relay *sse.Relay, url string, result chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sw := newWriter(t, w, sse.WriterConfig{})
		defer sw.Close()
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		sse.SetHeader(w.Header())
		err = relay.Copy(sw, resp.Body)
		if result != nil {
			result <- err
		}
	}
}

// replica starts a server that answers with a stream: write sends bytes and
// flushes.
func replica(t *testing.T, stream func(write func(string))) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		stream(func(s string) {
			_, _ = io.WriteString(w, s)
			_ = http.NewResponseController(w).Flush()
		})
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// rawReplica answers on a plain socket with an HTTP head and then whatever
// conn is given.
func rawReplica(t *testing.T, answer func(conn *net.TCPConn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(newBufReader(conn)); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
				answer(conn.(*net.TCPConn))
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	return "http://" + ln.Addr().String()
}

// middlewares are what a host program may put around a handler.
var middlewares = map[string]func(http.Handler) http.Handler{
	"none": func(h http.Handler) http.Handler { return h },
	"recovers from everything": func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { _ = recover() }()
			h.ServeHTTP(&unwraps{w}, r)
		})
	},
}

// unwraps is a wrapper with Unwrap and nothing else.
type unwraps struct{ http.ResponseWriter }

func (u *unwraps) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// flushes is a wrapper with Flush and nothing else.
type flushes struct {
	w     http.ResponseWriter
	count int
}

func (f *flushes) Header() http.Header         { return f.w.Header() }
func (f *flushes) WriteHeader(code int)        { f.w.WriteHeader(code) }
func (f *flushes) Write(p []byte) (int, error) { return f.w.Write(p) }
func (f *flushes) Flush() {
	f.count++
	f.w.(http.Flusher).Flush()
}

// both is a wrapper with a Flush of its own and Unwrap.
type both struct{ flushes }

func (b *both) Unwrap() http.ResponseWriter { return b.w }

// opaque is a wrapper with neither.
type opaque struct{ w http.ResponseWriter }

func (o *opaque) Header() http.Header         { return o.w.Header() }
func (o *opaque) WriteHeader(code int)        { o.w.WriteHeader(code) }
func (o *opaque) Write(p []byte) (int, error) { return o.w.Write(p) }

// TestB2Middleware checks with each kind of wrapper that an event reaches
// the client before the next one is written, or that nothing was begun.
func TestB2Middleware(t *testing.T) {
	wrappers := map[string]func(http.ResponseWriter) http.ResponseWriter{
		"none":             func(w http.ResponseWriter) http.ResponseWriter { return w },
		"Unwrap only":      func(w http.ResponseWriter) http.ResponseWriter { return &unwraps{w} },
		"Flush only":       func(w http.ResponseWriter) http.ResponseWriter { return &flushes{w: w} },
		"Flush and Unwrap": func(w http.ResponseWriter) http.ResponseWriter { return &both{flushes{w: w}} },
		"two":              func(w http.ResponseWriter) http.ResponseWriter { return &unwraps{&flushes{w: w}} },
	}
	for name, wrap := range wrappers {
		for _, proto := range protocols {
			t.Run(name+" "+proto, func(t *testing.T) {
				seen := make(chan struct{})
				get := serve(t, proto, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					sw := newWriter(t, wrap(w), sse.WriterConfig{})
					defer sw.Close()
					for range 5 {
						if err := emit(sw, "data: x\n\n"); err != nil {
							t.Error(err)
						}
						<-seen
					}
				}))
				resp := get()
				for range 5 {
					readN(t, resp.Body, 9)
					seen <- struct{}{}
				}
				if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
					t.Errorf("then %q, %v", rest, err)
				}
			})
		}
	}
}

func TestB2NoFlush(t *testing.T) {
	for _, wrap := range []func(http.ResponseWriter) http.ResponseWriter{
		func(w http.ResponseWriter) http.ResponseWriter { return &opaque{w} },
		func(w http.ResponseWriter) http.ResponseWriter { return &unwraps{&opaque{w}} },
	} {
		rec := httptest.NewRecorder()
		if _, err := sse.NewWriter(wrap(rec), sse.WriterConfig{}); !errors.Is(err, sse.ErrNoFlush) {
			t.Errorf("NewWriter = %v, want ErrNoFlush", err)
		}
		http.Error(rec, "cannot stream", http.StatusInternalServerError)
		if rec.Code != http.StatusInternalServerError {
			t.Errorf("status %d: something was written before", rec.Code)
		}
	}
}

// TestC3Abort breaks responses off that have been flushed, written, or not
// begun.
func TestC3Abort(t *testing.T) {
	begun := map[string]func(w *sse.Writer) error{
		"flushed": func(w *sse.Writer) error { return emit(w, "data: x\n\n") },
		"written": func(w *sse.Writer) error {
			if err := emit(w, "data: x\n\n"); err != nil {
				return err
			}
			_, err := w.Write([]byte("data: never flushed\n\n"))
			return err
		},
		"header": func(w *sse.Writer) error { return w.Flush() },
	}
	for name, middleware := range middlewares {
		for _, proto := range protocols {
			for state, begin := range begun {
				t.Run(name+" "+proto+" "+state, func(t *testing.T) {
					get := serve(t, proto, middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						sw := newWriter(t, w, sse.WriterConfig{})
						defer sw.Close()
						sse.SetHeader(w.Header()) // net/http does not wait for the flush of an empty header on HTTP/2
						if err := begin(sw); err != nil {
							t.Error(err)
						}
						if err := sw.Abort(); err != nil {
							t.Error(err)
						}
						if _, err := sw.Write([]byte("data: y\n\n")); !errors.Is(err, sse.ErrAborted) {
							t.Errorf("write after Abort: %v", err)
						}
					})))
					body, err := io.ReadAll(get().Body)
					if !broken(err) {
						t.Errorf("the body ends with %v, as if it were complete", err)
					}
					if want := "data: x\n\n"; !strings.HasPrefix(want, string(body)) || state != "header" && string(body) != want {
						t.Errorf("read %q", body)
					}
				})
			}
		}
	}
}

func TestAbortWithoutDeadline(t *testing.T) {
	sw := newWriter(t, httptest.NewRecorder(), sse.WriterConfig{})
	if err := sw.Abort(); !errors.Is(err, sse.ErrCannotAbort) {
		t.Errorf("Abort = %v, want ErrCannotAbort", err)
	}
}

// failing is a writer whose connection breaks at some point.
type failing struct {
	http.ResponseWriter
	write, flush error
	short        bool
}

func (f *failing) FlushError() error { return f.flush }
func (f *failing) Write(p []byte) (int, error) {
	if f.short {
		return len(p) - 1, nil
	}
	return len(p), f.write
}

func TestWriteErrorsAreKept(t *testing.T) {
	cause := errors.New("broken pipe")
	for name, tt := range map[string]struct {
		w    http.ResponseWriter
		op   string
		want error
	}{
		"write":                     {&failing{write: cause}, "write", cause},
		"short write":               {&failing{short: true}, "write", io.ErrShortWrite},
		"flush":                     {&failing{flush: cause}, "flush", cause},
		"flush below a plain Flush": {&quiet{failing{flush: cause}}, "flush", cause},
	} {
		t.Run(name, func(t *testing.T) {
			sw := newWriter(t, tt.w, sse.WriterConfig{})
			err := emit(sw, "data: x\n\n")
			var werr *sse.WriteError
			if !errors.As(err, &werr) || werr.Op != tt.op || !errors.Is(err, tt.want) {
				t.Fatalf("error = %v", err)
			}
			if err2 := sw.Flush(); err2 != err {
				t.Errorf("next Flush = %v, want the same", err2)
			}
		})
	}
}

// quiet hides the error of the flush below, as many middlewares do.
type quiet struct{ below failing }

func (q *quiet) Header() http.Header         { return nil }
func (q *quiet) WriteHeader(int)             {}
func (q *quiet) Write(p []byte) (int, error) { return q.below.Write(p) }
func (q *quiet) Flush()                      { _ = q.below.FlushError() }
func (q *quiet) Unwrap() http.ResponseWriter { return &q.below }

func TestB8Header(t *testing.T) {
	url := replica(t, func(write func(string)) { write("data: x\n\n") })
	for _, proto := range protocols {
		get := serve(t, proto, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100000")
			w.Header().Set("Content-Encoding", "gzip")
			forward(t, &sse.Relay{}, url, nil)(w, r)
		}))
		h := get().Header
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache, no-transform",
			"X-Accel-Buffering": "no", "Content-Length": "", "Content-Encoding": "",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s = %q, want %q", proto, name, got, want)
			}
		}
	}
}
