package faultbench_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
)

// slowLimit is how long slow peers have: more than honest ones need on a
// machine that is busy. slowEnd is when it must have ended them.
const (
	slowLimit = 1500 * time.Millisecond
	slowEnd   = 20 * time.Second
)

// slowly are the limits of a house for slow peers.
func slowly(secure bool) faultbench.Options {
	return faultbench.Options{
		Secure: secure,
		Server: func(s *http.Server) { s.ReadHeaderTimeout = slowLimit },
		Config: func(c *expediter.Config) { c.Timeouts.Body = slowLimit },
	}
}

// dribble sends a byte now and then until the peer has had enough. It
// reports whether that was soon.
func dribble(c net.Conn, text string) bool {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		br := bufio.NewReader(c)
		for {
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		}
	}()
	defer c.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(slowEnd)
	defer late.Stop()
	for i := 0; ; i++ {
		select {
		case <-gone:
			return true
		case <-late.C:
			return false
		case <-tick.C:
			_, _ = c.Write([]byte{text[i%len(text)]}) // fails once the peer is gone
		}
	}
}

// TestO7Dribble: peers that go on sending, but next to nothing, are let go;
// with TLS also while they shake hands, and over HTTP/2. Honest traffic goes on
// beside them.
func TestO7Dribble(t *testing.T) {
	for name, secure := range map[string]bool{"O7 plain": false, "O7 TLS": true} {
		t.Run(name, func(t *testing.T) {
			each := full(20, 350) // of four kinds, and six with TLS
			h := faultbench.Open(t, slowly(secure))
			connect := func(protocols ...string) net.Conn {
				c, err := net.Dial("tcp", h.Addr)
				if err != nil {
					t.Error(err)
					return nil
				}
				if !secure || protocols == nil {
					return c
				}
				config := h.TLS.Clone()
				config.ServerName, config.NextProtos = "127.0.0.1", protocols
				return tls.Client(c, config)
			}
			const never = "X-Slow: yes\r\nX-Slow: yes\r\n"
			kinds := map[string]func() bool{
				"head": func() bool {
					return dribble(connect("http/1.1"), "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"+strings.Repeat(never, 100))
				},
				"body": func() bool {
					c := connect("http/1.1")
					_, _ = io.WriteString(c, h.Head(1000))
					return dribble(c, " ")
				},
				"nothing":               func() bool { return silent(connect()) },
				"nothing after a while": func() bool { return silent(connect("http/1.1")) },
			}
			if secure {
				hello := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 500)
				kinds["hello"] = func() bool { return dribble(connect(), hello) }
				kinds["HTTP/2, preface"] = func() bool { return dribble(connect("h2"), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") }
			}
			var wg sync.WaitGroup
			for kind, f := range kinds {
				for range each {
					wg.Go(func() {
						if !f() {
							t.Errorf("%s: still open after %v", kind, slowEnd)
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
		})
	}
}

// silent shakes hands, if there is anything to shake, and waits.
func silent(c net.Conn) bool {
	defer c.Close()
	if s, ok := c.(*tls.Conn); ok && s.Handshake() != nil {
		return true
	}
	_ = c.SetReadDeadline(time.Now().Add(slowEnd))
	for {
		if _, err := c.Read(make([]byte, 512)); err != nil {
			timeout, ok := err.(net.Error)
			return !ok || !timeout.Timeout()
		}
	}
}

// slowBody is a body of which a byte comes now and then.
type slowBody struct{ n int }

func (s *slowBody) Read(p []byte) (int, error) {
	wait := time.NewTimer(50 * time.Millisecond)
	<-wait.C
	s.n++
	p[0] = ' '
	return 1, nil
}

// TestO7SlowBodyOverHTTP2: a body that never ends takes its own stream down
// and nobody else's on the connection.
func TestO7SlowBodyOverHTTP2(t *testing.T) {
	h := faultbench.Open(t, slowly(true))
	if a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 2}); !a.OK() { // the connection
		t.Fatalf("%v: %s", a.Err, a.Body)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if a := h.Send(t.Context(), "/v1/chat/completions", &slowBody{}, nil, nil); a.Err == nil && a.Status != 408 {
				t.Errorf("status %d: %s; want a 408 or a reset", a.Status, a.Body)
			}
		})
	}
	for range 20 {
		if a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 5}); !a.OK() {
			t.Errorf("honest traffic: %v, status %d: %s", a.Err, a.Status, a.Body)
		}
	}
	wg.Wait()
}
