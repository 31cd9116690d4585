package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/expediterhq/expediter/vllm"
)

// upstream is what a pool's connections depend on. Those of two pools are
// never shared.
type upstream struct {
	pool     string
	tls      upstreamTLS
	networks string // separated by spaces
}

func (pc *poolConfig) upstream() upstream {
	t := pc.TLS
	if t.ServerName == "" && pc.scheme() == "https" {
		t.ServerName = strings.TrimSuffix(pc.DNS.Host, ".")
	}
	return upstream{pc.Name, t, strings.Join(pc.Networks, " ")}
}

// link is a pool's connections.
type link struct {
	transport http.RoundTripper
	files     *vllm.TLSFiles // nil without TLS of its own
	version   uint64         // of the files, as the connections began
}

// current reports whether new connections would be made as these were.
func (l *link) current() bool { return l.files == nil || l.files.Version() == l.version }

// link makes the connections of a pool. The configuration is good.
func (u upstream) link(files *vllm.TLSFiles, logger *slog.Logger) *link {
	cfg := vllm.TransportConfig{Allow: parseNetworks(u.networks)}
	if u.tls != (upstreamTLS{}) && files == nil {
		files = &vllm.TLSFiles{
			CA: u.tls.CA, Cert: u.tls.Cert, Key: u.tls.Key,
			ServerName: u.tls.ServerName, MinVersion: tlsVersions[u.tls.MinVersion],
			Report: reportTLS("tls", u.tls.source(), logger.With("pool", u.pool)),
		}
	}
	l := &link{files: files}
	if files != nil {
		l.version = files.Version()
	}
	cfg.Files = files
	l.transport = vllm.NewTransport(cfg)
	return l
}

// connect returns p with a transport for every pool: the one that it has, if
// nothing has changed that it depends on. Otherwise requests to come get
// connections of their own, and those under way keep theirs.
func (g *gateway) connect(p parts) parts {
	next := make(map[upstream]*link, len(p.upstreams))
	p.config.Pools = slices.Clone(p.config.Pools)
	for i, u := range p.upstreams {
		l := g.links[u]
		switch {
		case l == nil:
			l = u.link(nil, g.logger)
		case !l.current():
			l = u.link(l.files, g.logger)
		}
		next[u] = l
		p.config.Pools[i].Transport = l.transport
	}
	g.links = next
	return p
}

// serve makes the handler serve p, or leaves everything as it was.
func (g *gateway) serve(p parts) error {
	links := g.links
	next := g.connect(p)
	if err := g.handler.Reload(g.with(next)); err != nil {
		g.links = links
		return err
	}
	g.last = next
	return nil
}

// renewEvery is how often certificates are looked at. New connections always
// use what the files hold; this is for those that are kept.
const renewEvery = time.Second

// renew gives pools whose certificates have changed new connections.
func (g *gateway) renew() error {
	for _, l := range g.links {
		if !l.current() {
			return g.serve(g.last)
		}
	}
	return nil
}

// checkUpstream finds replicas that the gateway would never connect to.
func (pc *poolConfig) checkUpstream(at string, m *mistakes) {
	var d vllm.Dialer
	for i, s := range pc.Networks {
		p, err := parseNetwork(s)
		here := fmt.Sprintf("%s.networks[%d]", at, i)
		if err != nil {
			m.add(here, "expected a network such as 10.0.0.0/8, or an address, got %q", s)
			return // nothing can be said of the replicas
		}
		if why := useless(p); why != "" {
			m.add(here, "%s, got %q", why, s)
			return
		}
		d.Allow = append(d.Allow, p)
	}
	for i, r := range pc.Replicas {
		u, err := url.Parse(r.URL)
		if err != nil || u.Host == "" {
			continue // the registry says so
		}
		here := m.inside(fmt.Sprintf("%s.replicas[%d]", at, i), "url")
		if pc.TLS != (upstreamTLS{}) && u.Scheme == "http" {
			m.add(here, "expected https://, since the pool has tls")
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && !d.Allowed(a) {
			m.add(here, "%s is not an address that replicas may have%s", a, inNetworks(pc.Networks))
		}
	}
}

func inNetworks(networks []string) string {
	if len(networks) == 0 {
		return ""
	}
	return "; networks lists " + strings.Join(networks, ", ")
}
