package main

import (
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
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Error(err)
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
