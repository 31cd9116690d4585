package faultbench

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/certs/certtest"
	"github.com/expediterhq/expediter/internal/rawio"
	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sse"
	"github.com/expediterhq/expediter/tenant"
)

// Options change a House before it opens.
type Options struct {
	Replicas int // If zero, 1
	Respond  func(*Got) Script
	Replica  func(i int, r *Replica)
	Config   func(*expediter.Config)
	Tenant   func(*tenant.Tenant)
	Server   func(*http.Server)
	Wrap     func(http.Handler) http.Handler
	Secure   bool // clients come by TLS, and may speak HTTP/2

	// Unseen allows attempts that never reached a ledger, since connections
	// were refused or lost on the way.
	Unseen bool

	// Racing allows tokens to be under way when a time limit or a departure
	// ends an attempt: sent by the replica, never seen by the gateway.
	Racing bool

	// Loose allows ledgers and records to differ in tokens, where a script
	// lies about them.
	Loose bool
}

// House is a whole gateway in front of scripted replicas.
type House struct {
	T        testing.TB
	Handler  *expediter.Handler
	Config   expediter.Config
	Pool     *registry.Pool
	Replicas []*Replica
	Members  []*registry.Replica
	Ledger   *Ledger
	Quota    *quota.Memory
	Tenant   *tenant.Tenant
	Key      string
	Metrics  *metrics.Metrics
	URL      string
	Addr     string
	Client   *http.Client
	TLS      *tls.Config // how clients believe the house, if it is secure
	Logs     *Log

	options Options
	server  *http.Server
	served  chan struct{}
	records records
	refused atomic.Int64
	posts   atomic.Int64 // generation requests that reached the handler
	others  atomic.Int64 // refusals on other paths

	goroutines, files int
	closed            sync.Once
	samples           chan struct{}
	sampled           sync.WaitGroup
	negative          atomic.Int64
	reports           int // mistakes found by checks so far
}

// The names of the house.
const (
	Model  = "acme-8b"      // the replicas' model
	Alias  = "gpt-fast"     // what clients may call it
	Prompt = "PROMPTMARK"   // in every prompt
	Words  = " ANSWERMARK " // in every delta
)

// Log collects what the gateway logs.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Forget empties the log.
func (l *Log) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type records struct {
	mu   sync.Mutex
	list []expediter.Record
}

func (r *records) Write(rec *expediter.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, *rec)
}

// Records returns the records so far.
func (h *House) Records() []expediter.Record {
	h.records.mu.Lock()
	defer h.records.mu.Unlock()
	return append([]expediter.Record(nil), h.records.list...)
}

// Write makes a House the sink of its gateway.
func (h *House) Write(rec *expediter.Record) {
	h.Metrics.Write(rec)
	h.records.Write(rec)
}

// Speak is the usual answer: as many tokens as were asked for, each with the
// request's own nonce.
func Speak(g *Got) Speech {
	n := g.Ask.MaxTokens
	if g.Ask.Newer > 0 {
		n = g.Ask.Newer
	}
	return Speech{Ask: g.Ask, ID: "cmpl-" + g.ID, Text: g.Nonce + Words, Tokens: n, Prompt: 7}
}

// Open builds a House. It is closed and checked when the test ends, unless
// the test does so itself.
func Open(t testing.TB, o Options) *House {
	t.Helper()
	rawio.Yield() // takes the descriptors that it keeps for as long as the process lives
	h := &House{
		T: t, options: o, Ledger: new(Ledger), Quota: quota.NewMemory(quota.MemoryConfig{}), Logs: new(Log),
		goroutines: runtime.NumGoroutine(), files: openFiles(), served: make(chan struct{}), samples: make(chan struct{}),
		Client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}},
	}
	var err error
	h.Pool, err = registry.NewPool(registry.PoolConfig{Name: "small"})
	h.must(err)
	for i := range max(o.Replicas, 1) {
		h.AddReplica(i)
	}
	h.configure()
	if o.Config != nil {
		o.Config(&h.Config)
	}
	h.Handler, err = expediter.New(h.Config)
	h.must(err)
	h.Metrics.Watch(h.Handler.Pools, h.Handler.Lines)
	h.listen()
	h.sampled.Go(h.sample)
	t.Cleanup(h.Close)
	return h
}

func (h *House) must(err error) {
	h.T.Helper()
	if err != nil {
		h.T.Fatal(err)
	}
}

// AddReplica starts another replica and makes it a member of the pool.
func (h *House) AddReplica(i int) {
	r := &Replica{Name: fmt.Sprintf("r%d", i), Model: Model, Ledger: h.Ledger, Respond: h.options.Respond}
	if r.Respond == nil {
		r.Respond = func(g *Got) Script { return Speak(g).Script() }
	}
	if h.options.Replica != nil {
		h.options.Replica(i, r)
	}
	h.must(r.Start())
	m, err := h.Pool.Add(registry.ReplicaConfig{Name: r.Name, URL: r.URL()})
	h.must(err)
	h.Replicas = append(h.Replicas, r)
	h.Members = append(h.Members, m)
}

func (h *House) configure() {
	reg, err := registry.NewStatic(h.Pool)
	h.must(err)
	h.Tenant = &tenant.Tenant{ID: "acme", Limit: quota.Limit{
		Concurrency: 100_000, Windows: []quota.Window{{Name: "all", Burst: 1 << 50}},
	}}
	if h.options.Tenant != nil {
		h.options.Tenant(h.Tenant)
	}
	var digest string
	h.Key, digest, err = tenant.NewKey()
	h.must(err)
	keys, err := tenant.NewKeys([]tenant.Key{{Digest: digest, Tenant: h.Tenant}}, tenant.Config{})
	h.must(err)
	h.Metrics = metrics.New(metrics.Config{Names: metrics.Names{Pools: []string{"small"}, Models: []string{Alias, Model}, Tenants: []string{"acme"}}})
	h.Config = expediter.Config{
		Registry:     reg,
		Pools:        []expediter.Pool{{Name: "small", Served: Model}},
		Models:       []expediter.Model{{Name: Alias, Pool: "small"}, {Name: Model, Pool: "small"}},
		Authenticate: keys.Authenticate,
		Quota:        h.Quota, Usage: h, Metrics: h.Metrics.Handler(),
		Refused: func(status int) { h.refused.Add(1); h.Metrics.Refused(status) },
		Scrape:  50 * time.Millisecond,
		Logger:  slog.New(slog.NewTextHandler(h.Logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func (h *House) listen() {
	var front http.Handler = http.HandlerFunc(h.ServeCounted)
	if h.options.Wrap != nil {
		front = h.options.Wrap(front)
	}
	h.server = &http.Server{
		Handler: front, ReadHeaderTimeout: 10 * time.Second, ConnContext: sse.ConnContext,
		ErrorLog: slog.NewLogLogger(slog.NewTextHandler(h.Logs, nil), slog.LevelError),
	}
	if h.options.Server != nil {
		h.options.Server(h.server)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	h.must(err)
	h.Addr = ln.Addr().String()
	h.URL = "http://" + h.Addr
	serve := h.server.Serve
	if h.options.Secure {
		h.secure()
		serve = func(l net.Listener) error { return h.server.ServeTLS(l, "", "") }
	}
	go func() {
		defer close(h.served)
		_ = serve(sse.Listener(ln)) // always ErrServerClosed in the end
	}()
}

// secure gives the server a certificate that the house's client believes.
func (h *House) secure() {
	a := certtest.New(h.T, "house")
	h.URL = "https://" + h.Addr
	h.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{a.Issue("gateway", "127.0.0.1").TLS(h.T)}}
	h.TLS = &tls.Config{RootCAs: a.Pool()}
	tr := h.Client.Transport.(*http.Transport)
	tr.TLSClientConfig, tr.ForceAttemptHTTP2 = h.TLS.Clone(), true
}

// ServeCounted is the gateway as the house's own server serves it, for tests
// that bring another server.
func (h *House) ServeCounted(w http.ResponseWriter, r *http.Request) {
	if p := r.URL.Path; p == "/v1/chat/completions" || p == "/v1/completions" {
		h.posts.Add(1)
		h.Handler.ServeHTTP(w, r)
		return
	}
	s := &statusWriter{ResponseWriter: w}
	h.Handler.ServeHTTP(s, r)
	if s.status >= 400 {
		h.others.Add(1)
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(s int) {
	w.status = s
	w.ResponseWriter.WriteHeader(s)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// sample looks now and then whether a load is below zero.
func (h *House) sample() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-h.samples:
			return
		case <-tick.C:
		}
		for _, m := range h.Pool.Replicas() {
			if l := m.Load(); l.Requests < 0 || l.Prefilling < 0 || l.Prefill < 0 || l.KV < 0 || l.Context < 0 {
				h.negative.Add(1)
			}
		}
	}
}

// Scrape returns the gateway's own metrics.
func (h *House) Scrape() string {
	w := &memory{h: make(http.Header)}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil)
	h.must(err)
	h.Metrics.Handler().ServeHTTP(w, r)
	return w.b.String()
}

type memory struct {
	h http.Header
	b strings.Builder
}

func (m *memory) Header() http.Header         { return m.h }
func (m *memory) Write(p []byte) (int, error) { return m.b.Write(p) }
func (m *memory) WriteHeader(int)             {}

// openFiles counts this process's file descriptors, where the system tells.
func openFiles() int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(d)
}
