package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/tenant"
)

// gateway is a running gateway whose configuration can be read again.
type gateway struct {
	path     string
	addr     string  // given beside the file
	began    *config // what it was started with
	logger   *slog.Logger
	registry *registry.Static
	keys     *tenant.Keys
	metrics  *metrics.Metrics
	base     expediter.Config // the parts that a reload keeps
	handler  *expediter.Handler
	tls      *listenerTLS // nil without TLS

	resolver    registry.Resolver     // nil for the system's
	without     bool                  // pools may be without replicas
	links       map[upstream]*link    // by pool
	discoveries map[string]*discovery // by pool
	last        parts                 // what is served
}

// defaultListen is where clients come if nothing says otherwise.
const defaultListen = "127.0.0.1:8080"

// load reads a configuration and makes its parts; the error lists every
// mistake with line and field. Unless addr is empty, it stands for listen.
func load(path, addr string) (*config, parts, error) {
	c, m, err := readConfig(path)
	if err != nil {
		return nil, parts{}, err
	}
	c.Listen = cmp.Or(addr, c.Listen, defaultListen)
	p := build(c, m)
	p.file = m
	return c, p, m.err()
}

// runConfig serves what a configuration file describes.
func runConfig(ctx context.Context, o options, logger *slog.Logger, stop <-chan os.Signal) error {
	hup := make(chan os.Signal, 1) // one that comes during the start is for after it
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	c, p, err := load(o.path, o.addr)
	if err != nil {
		return err
	}
	if o.check {
		return check(c, p.file, time.Now(), os.Stdout)
	}
	warn(c, p.file, time.Now(), logger)
	l, err := listen(c.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	var adminListener net.Listener
	if c.Admin != "" {
		if adminListener, err = listen(c.Admin); err != nil {
			return err
		}
		defer adminListener.Close()
	}
	g := &gateway{
		path: o.path, addr: o.addr, began: c, logger: logger, resolver: o.resolver, without: o.without,
		metrics: metrics.New(metrics.Config{Names: p.names}),
	}
	done, err := g.open(ctx, c, p)
	defer done()
	if err != nil {
		return err
	}
	defer g.endDiscoveries()
	if lost := g.discover(ctx, p); !o.without {
		if err := reach(ctx, p.pools, lost, &g.last.config, logger); err != nil {
			return err
		}
	}
	s := server{handler: g.handler, public: newPublic(g.handler, logger), grace: c.Grace, logger: logger}
	if adminListener != nil {
		s.admin = newAdmin(g.metrics.Handler())
	}
	defer g.followHangups(ctx, hup)()
	logger.Info("serving", "address", l.Addr().String(), "config", o.path)
	if g.tls != nil {
		s.public.TLSConfig = g.tls.config(c.TLS)
	}
	return s.run(l, adminListener, stop)
}

// newAdmin serves what only operators should reach.
func newAdmin(m http.Handler) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m)
	return &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
}

// open connects the parts. done gives back what was opened, also after an
// error.
func (g *gateway) open(ctx context.Context, c *config, p parts) (done func(), err error) {
	var closers []func()
	done = func() {
		for i := len(closers) - 1; i >= 0; i-- {
			closers[i]()
		}
	}
	if g.registry, err = registry.NewStatic(p.pools...); err != nil {
		return done, err
	}
	if g.keys, err = tenant.NewKeys(p.keys, p.keyConf); err != nil {
		return done, err
	}
	if c.TLS.Cert != "" {
		g.tls = &listenerTLS{logger: g.logger}
		if err := g.tls.use(c.TLS); err != nil {
			return done, err
		}
	}
	s, err := openStores(ctx, c, g.metrics, g.logger)
	closers = append(closers, s.close)
	if err != nil {
		return done, err
	}
	g.base = expediter.Config{
		Registry: g.registry, Authenticate: g.keys.Authenticate, Quota: s.quota,
		Usage: s.usage, Refused: g.metrics.Refused, Logger: g.logger,
	}
	if c.Admin == "" {
		g.base.Metrics = g.metrics.Handler()
	}
	g.last = g.connect(p)
	g.handler, err = expediter.New(g.with(g.last))
	if err != nil {
		return done, err
	}
	closers = append(closers, func() { g.handler.Close() })
	g.metrics.Watch(g.handler.Pools, g.handler.Lines)
	g.metrics.WatchParity(g.handler.Parity)
	g.metrics.WatchPrefixes(g.handler.Prefixes)
	g.metrics.WatchKeys(keyState(g.keys))
	return done, nil
}

// with returns the Config of p with the parts that a reload keeps.
func (g *gateway) with(p parts) expediter.Config {
	c := p.config
	c.Registry, c.Authenticate, c.Quota = g.base.Registry, g.base.Authenticate, g.base.Quota
	c.Usage, c.Refused, c.Metrics, c.Logger = g.base.Usage, g.base.Refused, g.base.Metrics, g.base.Logger
	return c
}

// followHangups reloads on each signal until end is called, which returns once
// no reload is under way.
func (g *gateway) followHangups(ctx context.Context, hup <-chan os.Signal) (end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.reloadOn(ctx, hup)
	}()
	return func() {
		cancel(errEnding)
		<-ended
	}
}

func (g *gateway) reloadOn(ctx context.Context, hup <-chan os.Signal) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := g.renew(); err != nil {
				g.logger.Error("connections to replicas were not renewed", "error", err)
			}
			continue
		case <-hup:
		}
		var part *partly
		switch err := g.reload(ctx); {
		case err == nil:
			g.logger.Info("configuration reloaded", "config", g.path)
		case errors.As(err, &part):
			g.logger.Error("configuration reloaded in part", "done", part.done, "error", part.err)
		default:
			g.logger.Error("configuration not reloaded; the old one stays", "error", err)
		}
	}
}

// errEnding is why a reload that is under way when the gateway ends is given up.
var errEnding = errors.New("the gateway is shutting down")

// partly is the error of a reload of which something is done.
type partly struct {
	done string
	err  error
}

func (p *partly) Error() string { return p.done + " replaced, the rest not: " + p.err.Error() }

// reload swaps in what the file says: pools, models, tenants and limits.
// Listeners, Redis, the pepper and the usage file stay as they were opened. A
// file with a mistake changes nothing, nor does one by which a pool would be
// left without a replica that can be used, as at the start; where a later step
// fails, the error is a *partly.
func (g *gateway) reload(ctx context.Context) error {
	c, p, err := load(g.path, g.addr)
	if err != nil {
		return err
	}
	for _, field := range waiting(g.began, c) {
		g.logger.Warn("a change waits for a restart", "field", field)
	}
	if err := g.replace(ctx, p); err != nil {
		return err
	}
	if err := g.serve(p); err != nil {
		return &partly{"pools", err}
	}
	if err := g.keys.Replace(p.keys); err != nil {
		return &partly{"pools and models", err}
	}
	warn(c, p.file, time.Now(), g.logger)
	g.metrics.SetNames(p.names)
	if g.tls != nil && c.TLS.Cert != "" {
		if err := g.tls.use(c.TLS); err != nil {
			return &partly{"all but the certificate for clients", err}
		}
	}
	return nil
}
