package main

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tenant"
)

// newHandler returns a pipeline in front of one simulated replica, for
// everybody.
func newHandler(t *testing.T, logger *slog.Logger) *expediter.Handler {
	t.Helper()
	replica := sim.NewServer(sim.Config{Model: "demo"})
	upstream := httptest.NewServer(replica)
	t.Cleanup(func() { upstream.Close(); replica.Close() })
	pool, err := registry.NewPool(registry.PoolConfig{Name: "small"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Add(registry.ReplicaConfig{URL: upstream.URL}); err != nil {
		t.Fatal(err)
	}
	reg, err := registry.NewStatic(pool)
	if err != nil {
		t.Fatal(err)
	}
	h, err := expediter.New(expediter.Config{
		Registry:     reg,
		Pools:        []expediter.Pool{{Name: "small", Served: "demo"}},
		Models:       []expediter.Model{{Name: "gpt-fast", Pool: "small"}},
		Authenticate: func(*http.Request) (*tenant.Tenant, error) { return &tenant.Tenant{ID: "acme"}, nil },
		Quota:        quota.NewMemory(quota.MemoryConfig{}),
		Logger:       logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestDrainCutShort: a long stream is ended by the grace period or by a second
// signal, and the log says by which.
func TestDrainCutShort(t *testing.T) {
	for _, tc := range []struct {
		name   string
		grace  time.Duration
		second bool
		want   string
	}{
		{"grace", time.Millisecond, false, "the grace period is over"},
		{"second signal", time.Hour, true, "a second signal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			h := newHandler(t, slog.New(slog.DiscardHandler))
			logger := textLogger(&log)
			s := server{handler: h, public: newPublic(h, logger), grace: tc.grace, logger: logger}
			l, err := listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			stop, ended := make(chan os.Signal, 2), make(chan error, 1)
			go func() { ended <- s.run(l, nil, stop) }()
			resp, err := http.Post("http://"+l.Addr().String()+"/v1/completions", "application/json",
				strings.NewReader(`{"model":"gpt-fast","prompt":"hello","stream":true,"max_tokens":20000,"ignore_eos":true}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body := bufio.NewReader(resp.Body)
			if line, err := body.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
				t.Fatalf("the stream begins with %q, %v", line, err)
			}
			stop <- syscall.SIGTERM
			if tc.second {
				stop <- syscall.SIGTERM
			}
			go io.Copy(io.Discard, body) // ends with the stream
			if err := <-ended; err != nil {
				t.Errorf("run = %v", err)
			}
			if got := log.String(); !strings.Contains(got, `reason="`+tc.want+`"`) || strings.Count(got, "reason=") != 1 {
				t.Errorf("log = %s, want the reason %q once", got, tc.want)
			}
		})
	}
}
