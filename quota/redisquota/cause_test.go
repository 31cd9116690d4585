package redisquota_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// TestCause: what a log shows of a refusal for want of Redis, and Stats, say
// which address and why, before and after it was given up, and no password.
func TestCause(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	o := redisOptions(addr)
	o.Password = "hunter2"
	client := redisquota.Client(o)
	defer client.Close()
	s, err := redisquota.New(client, redisquota.Config{Policy: redisquota.Closed})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	refused := func() string {
		t.Helper()
		var e *quota.UnavailableError
		if err := s.Reserve(t.Context(), reservation("t", unique())); !errors.As(err, &e) {
			t.Fatalf("Reserve = %v, want an UnavailableError", err)
		}
		return e.LogValue().String()
	}
	for _, when := range []string{"at first", "given up"} {
		got := refused()
		if !strings.Contains(got, "quota: store unavailable: "+addr+": ") || !strings.Contains(got, "refused") || strings.Contains(got, "hunter2") {
			t.Errorf("%s: the log says %q", when, got)
		}
		redistest.Until(t, "it to be given up", 5*time.Second, func() bool { return s.Stats().Down })
	}
	if st := s.Stats(); st.Cause == nil || !strings.Contains(st.Cause.Error(), "refused") {
		t.Errorf("Stats = %+v, want the cause", st)
	}
}
