package sse_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes in memory, so that servers
// and clients can run in a synctest bubble. They buffer nothing: a write
// waits until it is read.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble runs test for HTTP/1.1 and HTTP/2, each in a synctest bubble with a
// server for handler and a client of it.
func bubble(t *testing.T, writeTimeout time.Duration, test func(t *testing.T, get func() *http.Response, handle func(http.HandlerFunc))) {
	t.Helper()
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var protocols http.Protocols
				protocols.SetHTTP1(proto == "HTTP/1.1")
				protocols.SetUnencryptedHTTP2(proto == "HTTP/2.0")
				var handler http.HandlerFunc
				srv := http.Server{
					Protocols: &protocols, WriteTimeout: writeTimeout,
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(w, r) }),
				}
				listener := newPipes()
				var wg sync.WaitGroup
				wg.Go(func() { _ = srv.Serve(listener) })
				transport := &http.Transport{DialContext: listener.dial, Protocols: &protocols, MaxConnsPerHost: 1}
				get := func() *http.Response {
					resp, err := (&http.Client{Transport: transport}).Get("http://pipe/")
					if err != nil {
						t.Fatal(err)
					}
					if resp.Proto != proto {
						t.Fatalf("protocol is %s, want %s", resp.Proto, proto)
					}
					return resp
				}
				test(t, get, func(h http.HandlerFunc) { handler = h })
				transport.CloseIdleConnections()
				_ = srv.Close()
				wg.Wait()
			})
		})
	}
}

// readN reads n bytes.
func readN(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatalf("reading %d bytes: %v", n, err)
	}
	return string(b)
}

// pause is a wait in virtual time.
func pause(d time.Duration) { time.Sleep(d) }

// broken reports whether a body's end tells the client that it is not whole.
func broken(err error) bool { return err != nil && !errors.Is(err, io.EOF) }
