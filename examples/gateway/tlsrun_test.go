package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/certs/certtest"
	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tenant"
)

// lockedLog is read while others still write to it.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// secureHouse is a configured gateway, run as the program runs it, with TLS
// and certificates on both sides, before one simulated replica.
type secureHouse struct {
	t    *testing.T
	dir  string
	addr string
	key  string
	logs lockedLog

	without  bool // start before a replica answers
	resolver registry.Resolver
	prompts  int // sent by complete
	requests atomic.Int64

	mu      sync.Mutex
	replica *tls.Config // of new connections to the replica
	shown   []string    // to the replica, by the gateway
}

func (s *secureHouse) show(c *tls.Config) {
	c.VerifyConnection = func(state tls.ConnectionState) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(state.PeerCertificates) > 0 {
			s.shown = append(s.shown, state.PeerCertificates[0].Subject.CommonName)
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica = c
}

func (s *secureHouse) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.shown) == 0 {
		return ""
	}
	return s.shown[len(s.shown)-1]
}

// until waits for ok.
func (s *secureHouse) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			s.t.Fatalf("timed out waiting for %s; the log:\n%s", what, s.logs.String())
		}
		<-time.After(2 * time.Millisecond)
	}
}

// startReplica starts the simulated replica and returns its URL.
func (s *secureHouse) startReplica() string {
	engine := sim.NewServer(sim.Config{Model: "demo"})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		engine.ServeHTTP(w, r)
	}))
	srv.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.replica, nil
	}}
	srv.StartTLS()
	s.t.Cleanup(func() { srv.Close(); engine.Close() })
	return srv.URL
}

// start runs the gateway with a configuration in which LISTEN, REPLICA, DIGEST
// and DIR are filled in.
func (s *secureHouse) start(config string) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	l.Close()
	key, digest, err := tenant.NewKey()
	if err != nil {
		s.t.Fatal(err)
	}
	s.key = key
	config = strings.NewReplacer("LISTEN", s.addr, "REPLICA", s.startReplica(), "DIGEST", digest, "DIR", s.dir).Replace(config)
	path := filepath.Join(s.dir, "gateway.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	stop, ended := make(chan os.Signal, 2), make(chan error, 1)
	logger := slog.New(slog.NewTextHandler(&s.logs, nil))
	go func() {
		ended <- runConfig(s.t.Context(), options{path: path, without: s.without, resolver: s.resolver}, logger, stop)
	}()
	s.t.Cleanup(func() {
		stop <- syscall.SIGTERM
		stop <- syscall.SIGTERM
		if err := <-ended; err != nil {
			s.t.Errorf("the gateway ended: %v", err)
		}
		checkNoLookups(s.t)
	})
	s.until("the gateway", func() bool { return strings.Contains(s.logs.String(), "msg=serving") || len(ended) > 0 })
}

// client is one that shows a certificate and believes an authority.
func client(t *testing.T, shown *certtest.Pair, ca *certtest.Authority) *http.Client {
	c := &tls.Config{RootCAs: ca.Pool()}
	if shown != nil {
		c.Certificates = []tls.Certificate{shown.TLS(t)}
	}
	tr := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// stream begins a stream of tokens and reads its first event.
func (s *secureHouse) stream(c *http.Client, tokens int) (*http.Response, *bufio.Reader, error) {
	body := fmt.Sprintf(`{"model":"gpt-fast","prompt":"hello","stream":true,"max_tokens":%d,"ignore_eos":true}`, tokens)
	req, err := http.NewRequest(http.MethodPost, "https://"+s.addr+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	r := bufio.NewReader(resp.Body)
	line, err := r.ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "data: ") {
		err = fmt.Errorf("status %d, %q", resp.StatusCode, line)
	}
	if err != nil {
		resp.Body.Close()
	}
	return resp, r, err
}

// TestTLSRotates: a gateway that shows certificates to its replicas and asks
// its clients for theirs. All of them, and both authorities, are replaced while
// a stream runs, without a signal: the stream is complete, and new connections
// on both sides use what is in the files.
func TestTLSRotates(t *testing.T) {
	inside, outside := certtest.New(t, "inside-1"), certtest.New(t, "outside-1")
	s := &secureHouse{t: t, dir: t.TempDir()}
	renew := func(n int, inside, outside *certtest.Authority) (caller certtest.Pair) {
		s.show(&tls.Config{
			Certificates: []tls.Certificate{inside.Issue("replica", "127.0.0.1").TLS(t)},
			ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: inside.Pool(),
		})
		certtest.Write(t, s.dir, "engines-ca.pem", inside.PEM)
		inside.Issue(fmt.Sprintf("gateway-%d", n)).Write(t, s.dir, "upstream")
		certtest.Write(t, s.dir, "clients-ca.pem", outside.PEM)
		outside.Issue(fmt.Sprintf("front-%d", n), "127.0.0.1").Write(t, s.dir, "front")
		return outside.Issue("caller")
	}
	caller := renew(1, inside, outside)
	s.start(`listen: LISTEN
tls: {cert: DIR/front.pem, key: DIR/front-key.pem, client_ca: DIR/clients-ca.pem}
scrape: 50ms
pools:
  - name: small
    served: demo
    tls: {ca: DIR/engines-ca.pem, cert: DIR/upstream.pem, key: DIR/upstream-key.pem}
    networks: [127.0.0.0/8]
    replicas: [REPLICA]
models: [{name: gpt-fast, pool: small}]
tenants: [{id: acme, keys: [DIGEST]}]
`)
	old := client(t, &caller, outside)
	open, rest, err := s.stream(old, 300)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	if open.ProtoMajor != 2 || open.TLS.PeerCertificates[0].Subject.CommonName != "front-1" || s.last() != "gateway-1" {
		t.Errorf("%s, %s, and the replica saw %s", open.Proto, open.TLS.PeerCertificates[0].Subject, s.last())
	}
	if _, _, err := s.stream(client(t, nil, outside), 1); err == nil {
		t.Error("a client without a certificate was served")
	}

	inside2, outside2 := certtest.New(t, "inside-2"), certtest.New(t, "outside-2")
	caller2 := renew(2, inside2, outside2)
	if _, _, err := s.stream(client(t, &caller, outside), 1); err == nil {
		t.Error("a new connection was made under the old authority")
	}
	s.until("a probe with the new certificate", func() bool { return s.last() == "gateway-2" })
	s.until("a client with new certificates to be served", func() bool {
		next, _, err := s.stream(client(t, &caller2, outside2), 1)
		if err != nil {
			return false
		}
		next.Body.Close()
		return next.TLS.PeerCertificates[0].Subject.CommonName == "front-2"
	})
	if b, err := io.ReadAll(rest); err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
		t.Errorf("the stream that was open ends with %.100q, %v", b[max(0, len(b)-100):], err)
	}
}

// hup edits the configuration, sends SIGHUP, and waits for what the log says.
func (s *secureHouse) hup(edit func(string) string, says string) {
	s.t.Helper()
	path := filepath.Join(s.dir, "gateway.yaml")
	file, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(edit(string(file))), 0o600); err != nil {
		s.t.Fatal(err)
	}
	before := strings.Count(s.logs.String(), says)
	if err := hangUp(); err != nil {
		s.t.Fatal(err)
	}
	s.until(says, func() bool { return strings.Count(s.logs.String(), says) > before })
}

// TestTLSReload: SIGHUP takes other files; a file that cannot be used leaves
// everything as it was, and connections of pools that did not change stay.
func TestTLSReload(t *testing.T) {
	a := certtest.New(t, "a")
	s := &secureHouse{t: t, dir: t.TempDir()}
	s.show(&tls.Config{Certificates: []tls.Certificate{a.Issue("replica", "127.0.0.1").TLS(t)}, ClientAuth: tls.RequireAnyClientCert})
	for _, name := range []string{"one", "two"} {
		a.Issue(name, "127.0.0.1").Write(t, s.dir, name)
	}
	certtest.Write(t, s.dir, "ca.pem", a.PEM)
	s.start(`listen: LISTEN
tls: {cert: DIR/one.pem, key: DIR/one-key.pem}
scrape: 50ms
pools:
  - name: small
    served: demo
    tls: {ca: DIR/ca.pem, cert: DIR/one.pem, key: DIR/one-key.pem}
    replicas: [REPLICA]
models: [{name: gpt-fast, pool: small}]
tenants: [{id: acme, keys: [DIGEST]}]
`)
	front := func() string {
		resp, _, err := s.stream(client(t, nil, a), 1)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	if front() != "one" || s.last() != "one" {
		t.Errorf("clients see %s, the replica %s", front(), s.last())
	}
	open, rest, err := s.stream(client(t, nil, a), 200)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	s.hup(func(f string) string { return strings.Replace(f, "one.pem", "nowhere.pem", 1) }, "tls.cert: cannot be used")
	if front() != "one" {
		t.Errorf("after a reload that failed clients see %s", front())
	}
	s.hup(func(f string) string { return strings.NewReplacer("nowhere", "two", "one", "two").Replace(f) }, "configuration reloaded")
	if front() != "two" {
		t.Errorf("clients see %s", front())
	}
	s.until("the replica to see the other certificate", func() bool { return s.last() == "two" })
	if b, err := io.ReadAll(rest); err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
		t.Errorf("the stream that was open: %v", err)
	}
}

// TestTLSWrongReplica: a replica that cannot prove who it is gets no request,
// and the log says why.
func TestTLSWrongReplica(t *testing.T) {
	a, strange := certtest.New(t, "a"), certtest.New(t, "strange")
	s := &secureHouse{t: t, dir: t.TempDir(), without: true}
	s.show(&tls.Config{Certificates: []tls.Certificate{strange.Issue("replica", "127.0.0.1").TLS(t)}})
	certtest.Write(t, s.dir, "ca.pem", a.PEM)
	a.Issue("front", "127.0.0.1").Write(t, s.dir, "front")
	s.start(`listen: LISTEN
tls: {cert: DIR/front.pem, key: DIR/front-key.pem}
scrape: 1h
pools:
  - name: small
    served: demo
    tls: {ca: DIR/ca.pem}
    replicas: [REPLICA]
models: [{name: gpt-fast, pool: small}]
tenants: [{id: acme, keys: [DIGEST]}]
`)
	_, _, err := s.stream(client(t, nil, a), 1)
	if err == nil || !strings.Contains(err.Error(), "status 50") {
		t.Errorf("answer: %v, want a 502 or 503", err)
	}
	s.until("the reason in the log", func() bool { return strings.Contains(s.logs.String(), "certificate signed by unknown authority") })
	if n := s.requests.Load(); n != 0 {
		t.Errorf("the stranger got %d requests", n)
	}
}

// TestRedisTLS: quotas in a Redis that speaks TLS and asks for a certificate,
// which is renewed.
func TestRedisTLS(t *testing.T) {
	server := redistest.Start(t)
	a, dir := certtest.New(t, "a"), t.TempDir()
	var mu sync.Mutex
	var shown []string
	strict := &tls.Config{
		Certificates: []tls.Certificate{a.Issue("redis", "redis.test").TLS(t)},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: a.Pool(),
		VerifyConnection: func(state tls.ConnectionState) error {
			mu.Lock()
			defer mu.Unlock()
			shown = append(shown, state.PeerCertificates[0].Subject.CommonName)
			return nil
		},
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", strict)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { terminate(l, server.Addr, &wg) })
	defer wg.Wait()
	defer l.Close()
	c := &config{Redis: redisConfig{Addresses: []string{l.Addr().String()}, Policy: "closed", TLS: true, ServerName: "redis.test"}}
	c.Redis.CA = certtest.Write(t, dir, "ca.pem", a.PEM)
	for _, name := range []string{"gateway-1", "gateway-2"} {
		c.Redis.Cert, c.Redis.Key = a.Issue(name).Write(t, dir, "gateway")
		s, err := openStores(t.Context(), c, metrics.New(metrics.Config{}), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		r := quota.Reservation{ID: name, Tenant: "acme", Limit: quota.Limit{Concurrency: 5}, Cost: 1, Lease: time.Minute}
		if err := s.quota.Reserve(t.Context(), r); err != nil {
			t.Errorf("Reserve = %v", err)
		}
		s.close()
		mu.Lock()
		if len(shown) == 0 || shown[len(shown)-1] != name {
			t.Errorf("Redis was shown %q, want %s", shown, name)
		}
		mu.Unlock()
	}
	c.Redis.ServerName = "other.test"
	if s, err := openStores(t.Context(), c, metrics.New(metrics.Config{}), slog.New(slog.DiscardHandler)); err == nil {
		s.close()
		t.Error("a Redis of another name was believed")
	}
}

// terminate passes on what comes over TLS.
func terminate(l net.Listener, addr string, wg *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer c.Close()
			up, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			defer up.Close()
			wg.Go(func() { _, _ = io.Copy(c, up); c.Close() })
			_, _ = io.Copy(up, c)
		})
	}
}
