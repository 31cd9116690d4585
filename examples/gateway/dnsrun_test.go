package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/expediterhq/expediter/internal/certs/certtest"
	"github.com/expediterhq/expediter/sim"
)

// street is replicas that differ in their address and share a port, as those
// of a service do.
type street struct {
	port   string
	served map[string]*atomic.Int64 // completions, by address
}

// newStreet starts a replica at each address, with TLS unless c is nil.
func newStreet(t *testing.T, c *tls.Config, addrs ...string) *street {
	t.Helper()
	listeners := listenAlike(t, addrs)
	_, port, _ := net.SplitHostPort(listeners[0].Addr().String())
	s := &street{port: port, served: map[string]*atomic.Int64{}}
	for i, addr := range addrs {
		n := new(atomic.Int64)
		s.served[addr] = n
		engine := sim.NewServer(sim.Config{Model: "demo", Speed: 20})
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/completions" {
				n.Add(1)
			}
			engine.ServeHTTP(w, r)
		}))
		srv.Listener.Close()
		srv.Listener, srv.TLS = listeners[i], c
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		if c != nil {
			srv.StartTLS()
		} else {
			srv.Start()
		}
		t.Cleanup(func() { srv.Close(); engine.Close() })
	}
	return s
}

// listenAlike opens one port at all the addresses.
func listenAlike(t *testing.T, addrs []string) []net.Listener {
	t.Helper()
	for range 20 {
		port, listeners := "0", []net.Listener(nil)
		var err error
		for _, addr := range addrs {
			var l net.Listener
			if l, err = net.Listen("tcp", net.JoinHostPort(addr, port)); err != nil {
				break
			}
			_, port, _ = net.SplitHostPort(l.Addr().String())
			listeners = append(listeners, l)
		}
		if err == nil {
			return listeners
		}
		for _, l := range listeners {
			l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Skipf("this machine has not all of %q: %v", addrs, err)
		}
	}
	t.Fatal("no port is free at all addresses")
	return nil
}

// complete sends one request and returns its status. Each has another prompt,
// since equal ones go to one replica where there is a choice.
func (s *secureHouse) complete() int {
	s.t.Helper()
	s.prompts++
	body := fmt.Sprintf(`{"model":"gpt-fast","prompt":"%d","max_tokens":2}`, s.prompts)
	req, err := http.NewRequest(http.MethodPost, "http://"+s.addr+"/v1/completions", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// page returns what the gateway has at a path.
func (s *secureHouse) page(path string) string {
	s.t.Helper()
	resp, err := http.Get("http://" + s.addr + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// dnsFile is a configuration whose only pool has what stands for POOL.
const dnsFile = `listen: LISTEN
scrape: 50ms
pools: [{name: small, served: demo, networks: ["127.0.0.0/8"], POOL}]
models: [{name: gpt-fast, pool: small}]
tenants: [{id: acme, keys: [DIGEST]}]
`

// startFound runs a gateway whose pool is as said, with PORT filled in.
func (s *secureHouse) startFound(pool, port string) {
	s.t.Helper()
	s.start(strings.Replace(dnsFile, "POOL", strings.ReplaceAll(pool, "PORT", port), 1))
}

// TestFollowsAName: a gateway that knows only a name serves from its
// addresses, from one that is added, and no more from one that is gone.
func TestFollowsAName(t *testing.T) {
	st := newStreet(t, nil, "127.0.0.1", "127.0.0.2")
	names := startNameServer(t, "127.0.0.1", "192.0.2.1") // one is in none of the networks
	s := &secureHouse{t: t, dir: t.TempDir(), resolver: names.resolver()}
	s.startFound("dns: {host: vllm.test., port: PORT, interval: 100ms}", st.port)
	one, two := "127.0.0.1:"+st.port, "127.0.0.2:"+st.port
	served := func(addr string) func() bool {
		before := st.served[addr].Load()
		return func() bool {
			if status := s.complete(); status != 200 {
				t.Fatalf("status %d; the log:\n%s", status, s.logs.String())
			}
			return st.served[addr].Load() > before
		}
	}
	if !served("127.0.0.1")() {
		t.Error("the first request was not served by the one replica there is")
	}
	if got := s.page("/readyz"); !strings.Contains(got, `"small":1`) {
		t.Errorf("/readyz = %s", got)
	}
	names.set("127.0.0.1", "127.0.0.2")
	s.until("the second replica to serve", served("127.0.0.2"))
	s.until("the second replica in the metrics", func() bool {
		m := s.page("/metrics")
		return strings.Contains(m, `replica="`+one+`"`) && strings.Contains(m, `replica="`+two+`"`)
	})

	names.set("127.0.0.2")
	s.until("the first replica to leave", func() bool { return strings.Contains(s.logs.String(), `left=`+one) })
	if names.count() < 3 {
		t.Errorf("it left after %d answers without it, want 3", names.count())
	}
	before := st.served["127.0.0.1"].Load()
	for range 5 {
		served("127.0.0.2")()
	}
	if n := st.served["127.0.0.1"].Load() - before; n != 0 {
		t.Errorf("the replica that left got %d requests", n)
	}
	if m := s.page("/metrics"); strings.Contains(m, `replica="`+one+`"`) {
		t.Error("the replica that left is still in the metrics")
	}

	names.set()
	s.until("the outage in the log", func() bool { return strings.Contains(s.logs.String(), "cannot be looked up") })
	if !served("127.0.0.2")() {
		t.Error("not served during the outage")
	}
	s.hup(func(f string) string { return strings.Replace(f, "scrape: 50ms", "scrape: 60ms", 1) }, "configuration reloaded")
	if !served("127.0.0.2")() {
		t.Error("not served after a reload during the outage")
	}
	if n := strings.Count(s.logs.String(), "cannot be looked up"); n != 1 {
		t.Errorf("the outage is %d times in the log, want once", n)
	}
}

// TestSwapsTheName: SIGHUP moves a pool to another name, and to none.
func TestSwapsTheName(t *testing.T) {
	st := newStreet(t, nil, "127.0.0.1", "127.0.0.2")
	s := &secureHouse{t: t, dir: t.TempDir(), resolver: &phoneBook{addrs: map[string]string{"one.test": "127.0.0.1", "two.test": "127.0.0.2"}}}
	s.startFound("dns: {host: one.test, port: PORT}", st.port)
	for _, step := range []struct{ old, new, by string }{
		{"", "", "127.0.0.1"},
		{"one.test", "two.test", "127.0.0.2"},
		{"dns: {host: two.test, port: " + st.port + "}", "replicas: ['http://127.0.0.1:" + st.port + "']", "127.0.0.1"},
		{"replicas: ['http://127.0.0.1:" + st.port + "']", "dns: {host: two.test, port: " + st.port + "}", "127.0.0.2"},
	} {
		if step.old != "" {
			s.hup(func(f string) string { return strings.Replace(f, step.old, step.new, 1) }, "configuration reloaded")
		}
		before := st.served[step.by].Load()
		if status := s.complete(); status != 200 || st.served[step.by].Load() != before+1 {
			t.Errorf("after %q: status %d, not by %s", step.new, status, step.by)
		}
	}
}

// TestStartWithoutAName: a name that is not found keeps the gateway from
// starting, with the reason, unless it is told to start anyway.
func TestStartWithoutAName(t *testing.T) {
	st := newStreet(t, nil, "127.0.0.1")
	dead := nobody(t)
	_, deadPort, _ := net.SplitHostPort(dead)
	names := startNameServer(t)
	for _, tt := range []struct {
		name, pool string
		addrs      []string
		want       string
	}{
		{"no such name", "dns: {host: vllm.test., port: PORT}", nil, "vllm.test.: no such host, asked "},
		{"no address", "dns: {host: vllm.test., port: PORT}", []string{}, "vllm.test.: no such host"},
		{"in no network", "dns: {host: vllm.test., port: PORT}", []string{"192.0.2.1"}, "vllm.test.: has no address that is allowed, only such as 192.0.2.1"},
		{"nobody there", "dns: {host: vllm.test., port: " + deadPort + "}", []string{"127.0.0.1"}, "http://127.0.0.1:" + deadPort},
		{"nor a listed one", "replicas: ['http://" + dead + "'], dns: {host: vllm.test., port: PORT}", nil, "http://" + dead + "; vllm.test.: no such host, asked "},
	} {
		names.set(tt.addrs...)
		err := startOnce(t, strings.ReplaceAll(tt.pool, "PORT", st.port), names)
		want := `no replica of pool "small" answers (` + tt.want
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "); -without-replicas starts anyway") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: runConfig = %v, want one line that begins with %s", tt.name, err, want)
		}
	}
	names.set()
	s := &secureHouse{t: t, dir: t.TempDir(), without: true, resolver: names.resolver()}
	s.startFound("dns: {host: vllm.test., port: PORT, interval: 100ms}", st.port)
	if status := s.complete(); status != 503 {
		t.Errorf("status %d from an empty pool, want 503", status)
	}
	if !strings.Contains(s.logs.String(), "vllm.test.: no such host, asked ") {
		t.Errorf("the log does not have the reason:\n%s", s.logs.String())
	}
	names.set("127.0.0.1")
	s.until("the pool to fill", func() bool { return s.complete() == 200 })
}

// startOnce runs a gateway that does not start, and returns why.
func startOnce(t *testing.T, pool string, names *nameServer) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	file := strings.NewReplacer("LISTEN", "127.0.0.1:0", "DIGEST", digest, "POOL", pool).Replace(dnsFile)
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := make(chan os.Signal, 1)
	stop <- syscall.SIGTERM // where it starts all the same
	defer checkNoLookups(t)
	return runConfig(ctx, options{path: path, resolver: names.resolver()}, slog.New(slog.NewTextHandler(new(bytes.Buffer), nil)), stop)
}

// checkNoLookups finds lookups that go on after a gateway has ended.
func checkNoLookups(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1<<20)
	if stacks := buf[:runtime.Stack(buf, true)]; bytes.Contains(stacks, []byte("registry.(*DNS).Run")) {
		t.Errorf("lookups go on:\n%s", stacks)
	}
}

// TestFindsLocalhost: the system's resolver, for a name that each has.
func TestFindsLocalhost(t *testing.T) {
	st := newStreet(t, nil, "127.0.0.1")
	s := &secureHouse{t: t, dir: t.TempDir()}
	s.startFound("dns: {host: localhost, port: PORT}", st.port)
	if status := s.complete(); status != 200 {
		t.Errorf("status %d; the log:\n%s", status, s.logs.String())
	}
}

// TestFindsWithTLS: replicas that are found prove that they have the name,
// although they are reached at their addresses.
func TestFindsWithTLS(t *testing.T) {
	a := certtest.New(t, "a")
	st := newStreet(t, &tls.Config{Certificates: []tls.Certificate{a.Issue("replica", "vllm.test").TLS(t)}}, "127.0.0.1")
	names := &phoneBook{addrs: map[string]string{"vllm.test": "127.0.0.1", "other.test": "127.0.0.1"}}
	s := &secureHouse{t: t, dir: t.TempDir(), resolver: names}
	certtest.Write(t, s.dir, "ca.pem", a.PEM)
	s.startFound("tls: {ca: DIR/ca.pem}, dns: {host: vllm.test, port: PORT}", st.port)
	if status := s.complete(); status != 200 {
		t.Errorf("status %d; the log:\n%s", status, s.logs.String())
	}
	s.hup(func(f string) string { return strings.Replace(f, "vllm.test", "other.test", 1) }, "configuration reloaded")
	if status := s.complete(); status == 200 {
		t.Error("a replica was believed that has another name")
	}
}
