package h1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// hooked is a connection that tells when the deadline of its reads is lifted,
// and whose writes may fail after they were made.
type hooked struct {
	net.Conn
	lifted func()
	err    error
}

func (h hooked) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		h.lifted()
	}
	return h.Conn.SetReadDeadline(t)
}

func (h hooked) Write(p []byte) (int, error) {
	n, err := h.Conn.Write(p)
	if err == nil {
		err = h.err
	}
	return n, err
}

// TestKeptWhenDone: a connection is for others only once nothing more is done to
// it, and only if its request was sent.
func TestKeptWhenDone(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error // of the write
		kept int
	}{{"sent", nil, 1}, {"write failed", errors.New("write"), 0}} {
		t.Run(tt.name, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			go func() {
				if _, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
					_, _ = io.WriteString(far, "HTTP/1.1 204 No Content\r\n\r\n")
				}
			}()
			var tr *Transport
			early := 0
			tr = New(Config{
				Dial: func(context.Context, string, string) (net.Conn, error) {
					return hooked{near, func() { early = len(tr.idle.conns) }, tt.err}, nil
				},
				Idle: 1, IdleTimeout: time.Hour, HeadTimeout: time.Hour, MaxHead: 4 << 10,
			})
			defer tr.CloseIdleConnections()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://replica", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if early != 0 {
				t.Error("the deadline was lifted when the connection was another's already")
			}
			if n := len(tr.idle.conns); n != tt.kept {
				t.Errorf("%d connections kept, want %d", n, tt.kept)
			}
		})
	}
}
