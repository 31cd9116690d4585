package expediter_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
	direct "github.com/expediterhq/expediter/sse"
	"github.com/expediterhq/expediter/tenant"
)

// house is a whole gateway in front of simulated replicas, over real sockets.
type house struct {
	t        testing.TB
	config   expediter.Config
	handler  *expediter.Handler
	url      string
	key      string
	tenant   *tenant.Tenant
	pool     *registry.Pool
	quota    *quota.Memory
	records  *records
	logs     *logBuffer
	replicas []*replica
	refused  *statuses
	client   *http.Client
	net      *sim.Network // nil over real sockets
	close    func()
	audit    bool // the records are complete
}

// replica is one simulated engine behind a server of its own.
type replica struct {
	*sim.Server
	url   string
	reg   *registry.Replica
	http  *httptest.Server // nil in memory
	close func()
}

// records is a Sink that keeps everything.
type records struct {
	mu   sync.Mutex
	list []expediter.Record
	more chan struct{}
}

func (r *records) Write(rec *expediter.Record) {
	r.mu.Lock()
	r.list = append(r.list, *rec)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *records) all() []expediter.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]expediter.Record(nil), r.list...)
}

// wait returns once n records are there.
func (r *records) wait(t testing.TB, n int) []expediter.Record {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		if all := r.all(); len(all) >= n {
			return all
		}
		select {
		case <-r.more:
		case <-limit:
			t.Fatalf("got %d records, want %d", len(r.all()), n)
		}
	}
}

type statuses struct {
	mu   sync.Mutex
	list []int
}

func (s *statuses) add(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, code)
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// option changes a house before it opens.
type option struct {
	replicas int
	sim      func(*sim.Config)
	config   func(*expediter.Config)
	tenant   func(*tenant.Tenant)
	wrap     func(http.Handler) http.Handler
	front    func(i int, h http.Handler) http.Handler // in front of replica i
	net      *sim.Network                             // if not nil, instead of real sockets
}

const servedModel = "acme-8b"

// open builds a house and closes it, and checks that nothing is left, when
// the test ends.
func open(t testing.TB, o option) *house {
	t.Helper()
	h := &house{
		t: t, quota: quota.NewMemory(quota.MemoryConfig{}), logs: new(logBuffer), refused: new(statuses),
		records: &records{more: make(chan struct{}, 1)},
		audit:   true,
		client:  &http.Client{Transport: new(http.Transport)}, net: o.net,
	}
	baseline := runtime.NumGoroutine()
	var err error
	h.pool, err = registry.NewPool(registry.PoolConfig{Name: "small"})
	must(t, err)
	for i := range max(o.replicas, 1) {
		h.addReplica(o, i)
	}
	reg, err := registry.NewStatic(h.pool)
	must(t, err)
	h.tenant = &tenant.Tenant{ID: "acme", Limit: quota.Limit{
		Concurrency: 1000, Windows: []quota.Window{{Name: "all", Burst: 1 << 40}},
	}}
	if o.tenant != nil {
		o.tenant(h.tenant)
	}
	var digest string
	h.key, digest, err = tenant.NewKey()
	must(t, err)
	keys, err := tenant.NewKeys([]tenant.Key{{Digest: digest, Tenant: h.tenant}}, tenant.Config{})
	must(t, err)
	h.config = expediter.Config{
		Registry:     reg,
		Pools:        []expediter.Pool{{Name: "small", Served: servedModel}},
		Models:       []expediter.Model{{Name: "gpt-fast", Pool: "small"}, {Name: servedModel, Pool: "small"}},
		Authenticate: keys.Authenticate,
		Quota:        h.quota, Usage: h.records, Refused: h.refused.add,
		Scrape: 20 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if o.net != nil {
		h.client = &http.Client{Transport: o.net.Transport()}
		h.config.Pools[0].Transport = o.net.Transport()
		h.config.Scrape = 500 * time.Millisecond
	}
	if o.config != nil {
		o.config(&h.config)
	}
	h.handler, err = expediter.New(h.config)
	must(t, err)
	var front http.Handler = h.handler
	if o.wrap != nil {
		front = o.wrap(front)
	}
	var closeServer func()
	h.url, _, closeServer = h.listen("gateway:80", front)
	h.close = sync.OnceFunc(func() {
		closeServer()
		h.handler.Close()
		h.checkRest()
		h.client.CloseIdleConnections()
		for _, r := range h.replicas {
			r.close()
			r.Close()
		}
		if h.net == nil { // a bubble looks after its own
			checkGoroutines(t, baseline)
		}
	})
	t.Cleanup(h.close)
	return h
}

// checkGoroutines waits until no more goroutines run than before the house
// was built.
func checkGoroutines(t testing.TB, baseline int) {
	t.Helper()
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for runtime.NumGoroutine() > baseline {
		select {
		case <-tick.C:
		case <-limit:
			buf := make([]byte, 1<<20)
			t.Errorf("%d goroutines at the end, %d at the start:\n%s", runtime.NumGoroutine(), baseline, buf[:runtime.Stack(buf, true)])
			return
		}
	}
}

// listen serves handler on a real socket, or in the memory network as addr.
func (h *house) listen(addr string, handler http.Handler) (url string, server *httptest.Server, done func()) {
	h.t.Helper()
	if h.net == nil {
		s := httptest.NewUnstartedServer(handler)
		s.Config.ConnContext, s.Listener = direct.ConnContext, direct.Listener(s.Listener)
		s.Start()
		return s.URL, s, s.Close
	}
	host, err := h.net.Serve(addr, handler)
	must(h.t, err)
	return host.URL(), nil, func() { host.Close() }
}

func (h *house) addReplica(o option, i int) {
	c := sim.Config{Model: servedModel, Speed: 20, Natural: func(uint64) int { return 1 << 20 }}
	if o.sim != nil {
		o.sim(&c)
	}
	r := &replica{Server: sim.NewServer(c)}
	var front http.Handler = r.Server
	if o.front != nil {
		front = o.front(i, front)
	}
	r.url, r.http, r.close = h.listen(fmt.Sprintf("replica%d:80", i), front)
	var err error
	r.reg, err = h.pool.Add(registry.ReplicaConfig{Name: fmt.Sprintf("r%d", i), URL: r.url})
	must(h.t, err)
	h.replicas = append(h.replicas, r)
}

// checkRest checks what must be true whenever nobody is being served.
func (h *house) checkRest() {
	h.t.Helper()
	for _, r := range h.replicas {
		if l := r.reg.Load(); l != (registry.Load{}) {
			h.t.Errorf("replica %s at rest: load = %+v, want none", r.reg.Name(), l)
		}
	}
	if n := h.handler.InFlight(); n != 0 {
		h.t.Errorf("at rest: %d requests in flight, want 0", n)
	}
	b, err := h.quota.Balance(context.Background(), h.tenant.ID)
	must(h.t, err)
	if b.Running != 0 || b.Reserved != 0 {
		h.t.Errorf("quota at rest: %d slots and %d tokens reserved, want 0 and 0", b.Running, b.Reserved)
	}
	var charged int64
	for _, r := range h.records.all() {
		charged += r.Charged
		if r.Status == "" || r.Charged < 0 || r.Output < 0 {
			h.t.Errorf("record without a final state: %+v", r)
		}
	}
	if h.audit && charged != b.Charged {
		h.t.Errorf("records say %d tokens were charged, the quota store %d", charged, b.Charged)
	}
	if strings.Contains(h.logs.String(), h.key) {
		h.t.Error("the log holds a key")
	}
}

// post sends a body to the chat endpoint.
func (h *house) post(ctx context.Context, path, body string, headers ...string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path, strings.NewReader(body))
	must(h.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+h.key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := h.client.Do(r)
	must(h.t, err)
	return resp
}

func (h *house) chat(body string) (int, string) {
	h.t.Helper()
	resp := h.post(context.Background(), "/v1/chat/completions", body)
	return resp.StatusCode, readAll(h.t, resp)
}

func readAll(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(b)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// chatBody is a chat request with one user message.
func chatBody(stream bool, maxTokens int, content string) string {
	return fmt.Sprintf(`{"model":"gpt-fast","stream":%t,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, stream, maxTokens, content)
}
