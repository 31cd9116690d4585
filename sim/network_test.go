package sim_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/sim"
)

func connect(t *testing.T, n *sim.Network) (client, server net.Conn) {
	t.Helper()
	l, err := n.Listen("replica:8000")
	if err != nil {
		t.Fatal(err)
	}
	client, err = n.DialContext(t.Context(), "tcp", "replica:8000")
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestConnDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		client, server := connect(t, &sim.Network{Delay: 10 * time.Millisecond})
		if got := time.Since(start); got != 20*time.Millisecond {
			t.Errorf("dial took %v, want a round trip of 20ms", got)
		}
		start = time.Now()
		_, _ = client.Write([]byte("ab"))
		_, _ = client.Write([]byte("c"))
		_ = client.Close()
		got, err := io.ReadAll(server)
		if string(got) != "abc" || err != nil || time.Since(start) != 10*time.Millisecond {
			t.Errorf("read %q, %v after %v, want abc after 10ms", got, err, time.Since(start))
		}
		if _, err := server.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed peer = %v, want broken pipe", err)
		}
	})
}

func TestConnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t, &sim.Network{Buffer: 4})
		start := time.Now()
		_ = client.SetReadDeadline(start.Add(time.Second))
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Read = %v after %v, want deadline exceeded after 1s", err, time.Since(start))
		}
		_ = client.SetReadDeadline(time.Time{})
		_ = client.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := client.Write([]byte("abcdef")); n != 4 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write into a full buffer = %d, %v, want 4 and deadline exceeded", n, err)
		}
		go func() {
			time.Sleep(time.Second)
			_ = server.SetReadDeadline(time.Now())
		}()
		start = time.Now()
		b := make([]byte, 8)
		if n, err := server.Read(b); n != 4 || err != nil {
			t.Errorf("Read = %d, %v, want the 4 buffered bytes", n, err)
		}
		if _, err := server.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Read = %v after %v, want it interrupted after 1s", err, time.Since(start))
		}
	})
}

func TestConnBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t, &sim.Network{Buffer: 10})
		done := false
		go func() {
			_, _ = client.Write(make([]byte, 25))
			done = true
			_ = client.Close()
		}()
		synctest.Wait()
		if done {
			t.Error("Write of 25 bytes returned with a buffer of 10 and no reader")
		}
		if got, err := io.ReadAll(server); len(got) != 25 || err != nil {
			t.Errorf("read %d bytes, %v, want 25", len(got), err)
		}
	})
}

func TestConnReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t, &sim.Network{})
		_, _ = server.Write([]byte("lost"))
		_ = server.(*sim.Conn).SetLinger(0)
		_ = server.Close()
		if _, err := client.Read(make([]byte, 8)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Read = %v, want connection reset", err)
		}
		if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Write = %v, want connection reset", err)
		}
	})
}

func TestDialFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n sim.Network
		if _, err := n.DialContext(t.Context(), "tcp", "nobody:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial nobody = %v, want connection refused", err)
		}
		l, err := n.Listen("r:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Listen("r:1"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("second Listen = %v, want address in use", err)
		}
		l.Refuse(true)
		if _, err := n.DialContext(t.Context(), "tcp", "r:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial refusing host = %v, want connection refused", err)
		}
		l.Refuse(false)
		l.Blackhole(true)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if _, err := n.DialContext(ctx, "tcp", "r:1"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("dial black hole = %v after %v, want the context's end after 3s", err, time.Since(start))
		}
	})
}

// replica serves a sim.Server in a network inside a synctest bubble.
func replica(t *testing.T, n *sim.Network, cfg sim.Config) (*sim.Server, *sim.Host, *http.Client) {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "acme-8b"
	}
	srv := sim.NewServer(cfg)
	host, err := n.Serve("replica:8000", srv)
	if err != nil {
		t.Fatal(err)
	}
	tr := n.Transport()
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = host.Close()
		srv.Close()
	})
	return srv, host, &http.Client{Transport: tr}
}

func complete(ctx context.Context, c *http.Client, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", "http://replica:8000/v1/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.Do(req)
}

func TestServerInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sim.Profile{Name: "round", Base: 10 * time.Millisecond, KVTokens: 1600}
		srv, _, c := replica(t, &sim.Network{Delay: time.Millisecond}, sim.Config{Profile: p})
		start := time.Now()
		resp, err := complete(t.Context(), c, `{"prompt":"abcd","max_tokens":5,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 4*time.Millisecond {
			t.Errorf("head after %v, want 4ms: two round trips, before any token", got)
		}
		var first, last time.Duration
		buf := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buf)
			if n > 0 {
				last = time.Since(start)
				if first == 0 {
					first = last
				}
			}
			if err != nil {
				break
			}
		}
		_ = resp.Body.Close()
		if first != 14*time.Millisecond || last != 54*time.Millisecond {
			t.Errorf("first event after %v, last after %v, want 14ms and 54ms", first, last)
		}
		if r := srv.Requests()[0]; r.Sent != 5 || r.Reason != sim.Length || r.FirstToken.Sub(start) != 13*time.Millisecond {
			t.Errorf("ledger = %+v", r)
		}
	})
}

// A cancelled request gives its blocks back when the running step is over.
func TestAbortFreesAfterStep(t *testing.T) {
	for _, stream := range []string{"true", "false"} {
		synctest.Test(t, func(t *testing.T) {
			p := sim.Profile{Name: "round", Base: 100 * time.Millisecond, KVTokens: 16000}
			srv, _, c := replica(t, &sim.Network{}, sim.Config{Profile: p})
			ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
			defer cancel()
			start := time.Now()
			resp, err := complete(ctx, c, `{"prompt":"abcd","max_tokens":500,"ignore_eos":true,"stream":`+stream+`}`)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("error = %v, want deadline exceeded", err)
			}
			synctest.Wait()
			if st := srv.Stats(); st.Running != 1 || st.Free == st.Usable {
				t.Errorf("Stats during the step = %+v, want the sequence and its blocks still there", st)
			}
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
			if st := srv.Stats(); st.Running != 0 || st.Free != st.Usable || st.Abort != 1 {
				t.Errorf("Stats after the step = %+v, want everything free", st)
			}
			r := srv.Requests()[0]
			if r.Aborted.Sub(start) != 250*time.Millisecond || r.Freed.Sub(start) != 300*time.Millisecond || r.Reason != sim.Aborted {
				t.Errorf("aborted after %v, freed after %v, reason %q, want 250ms, 300ms, abort", r.Aborted.Sub(start), r.Freed.Sub(start), r.Reason)
			}
		})
	}
}
