package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

func textLogger(out *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, nil))
}

// TestWatchOutages: one line for each change, none between.
func TestWatchOutages(t *testing.T) {
	var log bytes.Buffer
	refused, late := errors.New("connection refused"), context.DeadlineExceeded
	states := []redisquota.Stats{{}, {Down: true, Cause: refused, Pending: 1}, {Down: true, Cause: late, Pending: 2}, {Pending: 2, Dropped: 3}, {}, {Down: true, Cause: late}}
	ticks, stop, done := make(chan time.Time), make(chan struct{}), make(chan struct{})
	next := 0
	stats := func() redisquota.Stats { next++; return states[next-1] }
	go func() {
		defer close(done)
		watchOutages(ticks, stop, stats, &redisConfig{Policy: "open", Addresses: []string{"a:1", "b:2"}}, textLogger(&log))
	}()
	for range states {
		ticks <- time.Time{}
	}
	close(stop)
	<-done
	var got []string
	for line := range strings.Lines(log.String()) {
		_, line, _ = strings.Cut(line, "level=")
		got = append(got, strings.TrimSpace(line))
	}
	want := []string{
		`WARN msg="Redis is away; quotas are answered by the policy" policy=open addresses="a:1, b:2" error="connection refused"`,
		`INFO msg="Redis is back" pending=2 dropped=3`,
		`WARN msg="Redis is away; quotas are answered by the policy" policy=open addresses="a:1, b:2" error="context deadline exceeded"`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("log =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// nobody returns an address that refuses connections.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestStartWithoutRedis: only under the policy closed must Redis be there when
// the gateway starts.
func TestStartWithoutRedis(t *testing.T) {
	for _, tc := range []struct {
		policy string
		starts bool
	}{{"closed", false}, {"open", true}, {"local_share", true}} {
		t.Run(tc.policy, func(t *testing.T) {
			var log bytes.Buffer
			addr := nobody(t)
			c := &config{Redis: redisConfig{Addresses: []string{addr}, Policy: tc.policy, Share: 0.5}}
			s, err := openStores(t.Context(), c, metrics.New(metrics.Config{}), textLogger(&log))
			defer s.close()
			if !tc.starts {
				if err == nil || !strings.HasPrefix(err.Error(), "cannot reach Redis at "+addr) || strings.Contains(err.Error(), "\n") {
					t.Errorf("openStores = %v, want one line that Redis cannot be reached", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r := quota.Reservation{ID: "1", Tenant: "acme", Cost: 1, Limit: quota.Limit{Windows: []quota.Window{quota.PerMinute(60)}}}
			if err := s.quota.Reserve(context.Background(), r); err != nil {
				t.Errorf("Reserve = %v, want what the policy grants", err)
			}
			s.close()
			if got := log.String(); strings.Count(got, "level=WARN") < 1 || !strings.Contains(got, addr) || !strings.Contains(got, "policy="+tc.policy) {
				t.Errorf("log = %s, want a warning that names the address and the policy", got)
			}
		})
	}
}

// TestRefusedByRedis: a Redis that is there and refuses the password is a
// mistake in the configuration under every policy.
func TestRefusedByRedis(t *testing.T) {
	server := redistest.Start(t)
	server.Do("CONFIG", "SET", "requirepass", "right")
	t.Setenv("TEST_REDIS_PASSWORD", "wrong")
	c := &config{Redis: redisConfig{Addresses: []string{server.Addr}, Policy: "open", PasswordEnv: "TEST_REDIS_PASSWORD"}}
	s, err := openStores(t.Context(), c, metrics.New(metrics.Config{}), slog.New(slog.DiscardHandler))
	defer s.close()
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("openStores = %v, want WRONGPASS", err)
	}
}
