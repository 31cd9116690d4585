package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sse"
	"github.com/expediterhq/expediter/tenant"
)

// gateway is what is being tested, with everything on.
type gateway struct {
	url, key string
	handler  *expediter.Handler
	server   *http.Server
	served   chan struct{}
	pool     *registry.Pool
	quota    *quota.Memory

	mu      sync.Mutex
	records map[string]*expediter.Record
	twice   int                        // records for a request that had one
	failed  map[string]map[string]bool // by request: replicas on which an attempt failed
}

const tenantID = "soak"

func newGateway(f *fleet) (*gateway, error) {
	g := &gateway{
		quota: quota.NewMemory(quota.MemoryConfig{}), served: make(chan struct{}),
		records: make(map[string]*expediter.Record), failed: make(map[string]map[string]bool),
	}
	pool, err := registry.NewPool(registry.PoolConfig{Name: "small"})
	if err != nil {
		return nil, err
	}
	g.pool = pool
	for i, r := range f.replicas {
		if _, err := pool.Add(registry.ReplicaConfig{Name: r.Name, URL: "http://" + f.proxies[i].Addr()}); err != nil {
			return nil, err
		}
	}
	c, err := g.config()
	if err != nil {
		return nil, err
	}
	if g.handler, err = expediter.New(c); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g.url = "http://" + ln.Addr().String()
	g.server = &http.Server{Handler: g.handler, ReadHeaderTimeout: 10 * time.Second, ConnContext: sse.ConnContext}
	go func() {
		defer close(g.served)
		_ = g.server.Serve(sse.Listener(ln)) // always ErrServerClosed in the end
	}()
	return g, nil
}

func (g *gateway) config() (expediter.Config, error) {
	reg, err := registry.NewStatic(g.pool)
	if err != nil {
		return expediter.Config{}, err
	}
	key, digest, err := tenant.NewKey()
	if err != nil {
		return expediter.Config{}, err
	}
	g.key = key
	keys, err := tenant.NewKeys([]tenant.Key{{Digest: digest, Tenant: &tenant.Tenant{
		ID: tenantID, Limit: quota.Limit{Concurrency: 1 << 20, Windows: []quota.Window{{Name: "all", Burst: 1 << 50}}},
	}}}, tenant.Config{})
	return expediter.Config{
		Registry:     reg,
		Pools:        []expediter.Pool{{Name: "small", Served: faultbench.Model, MaxWait: 5 * time.Second}},
		Models:       []expediter.Model{{Name: faultbench.Alias, Pool: "small"}},
		Authenticate: keys.Authenticate,
		Quota:        g.quota, Usage: g,
		Scrape: 200 * time.Millisecond,
		Retry:  expediter.Retry{Attempts: 5}, // for a fleet in which one attempt in forty fails before its first token
		Timeouts: expediter.Timeouts{
			FirstToken: 5 * time.Second, Silence: 3 * time.Second, Answer: 8 * time.Second, Write: 2 * time.Second, Body: 5 * time.Second,
		},
		Logger: slog.New(attempts{g}),
	}, err
}

// Write makes the gateway's records those of the soak.
func (g *gateway) Write(r *expediter.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.records[r.ID] != nil {
		g.twice++
	}
	g.records[r.ID] = r
}

// attempts is a log of failed attempts, by request.
type attempts struct{ g *gateway }

func (attempts) Enabled(context.Context, slog.Level) bool { return true }
func (a attempts) WithAttrs([]slog.Attr) slog.Handler     { return a }
func (a attempts) WithGroup(string) slog.Handler          { return a }

// Handle keeps which replicas failed a request.
func (a attempts) Handle(_ context.Context, r slog.Record) error {
	var id, replica string
	r.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "request":
			id = attr.Value.String()
		case "replica":
			replica = attr.Value.String()
		}
		return true
	})
	if id == "" || replica == "" {
		return nil
	}
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	if a.g.failed[id] == nil {
		a.g.failed[id] = make(map[string]bool)
	}
	a.g.failed[id][replica] = true
	return nil
}

// rest waits until nobody is being served.
func (g *gateway) rest() {
	for range 2000 {
		if g.handler.InFlight() == 0 {
			return
		}
		wait(nil, 5*time.Millisecond)
	}
}

func (g *gateway) close() {
	_ = g.server.Close()
	<-g.served
	_ = g.handler.Close()
}
