package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/expediterhq/expediter/sim"
)

// hangUp sends a SIGHUP to the tests themselves.
func hangUp() error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Signal(syscall.SIGHUP)
}

// TestHangupDuringStart: a SIGHUP that comes while replicas are still asked for
// their health neither ends the gateway nor is lost.
func TestHangupDuringStart(t *testing.T) {
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, syscall.SIGHUP)
	defer signal.Stop(arrived)
	engine := sim.NewServer(sim.Config{Model: "demo"})
	defer engine.Close()
	var once sync.Once
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			if err := hangUp(); err != nil {
				t.Error(err)
				return
			}
			<-arrived
		})
		engine.ServeHTTP(w, r)
	}))
	defer replica.Close()
	s := &secureHouse{t: t, dir: t.TempDir()}
	s.start(`listen: LISTEN
pools: [{name: small, served: demo, networks: ["127.0.0.0/8"], replicas: ["` + replica.URL + `"]}]
models: [{name: gpt-fast, pool: small}]
tenants: [{id: acme, keys: [DIGEST]}]
`)
	s.until("the reload", func() bool { return strings.Contains(s.logs.String(), "configuration reloaded") })
}

// TestDemoHangup: a SIGHUP does not end the demo, unless it comes because the
// terminal is gone.
func TestDemoHangup(t *testing.T) {
	for _, tc := range []struct {
		name string
		out  io.Writer
		ends bool
	}{{"a terminal", io.Discard, false}, {"none", goneWriter{}, true}} {
		t.Run(tc.name, func(t *testing.T) {
			hup, stop := make(chan os.Signal), make(chan os.Signal, 2)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				ignoreHangups(ctx, hup, stop, slog.NewTextHandler(tc.out, nil))
			}()
			hup <- syscall.SIGHUP
			hup <- syscall.SIGHUP // the first has been dealt with
			cancel()
			<-done
			if ends := len(stop) > 0; ends != tc.ends {
				t.Errorf("ends = %t, want %t", ends, tc.ends)
			}
		})
	}
}

type goneWriter struct{}

func (goneWriter) Write([]byte) (int, error) { return 0, syscall.EIO }
