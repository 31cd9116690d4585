package main

import (
	"slices"
	"strings"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// shortestLook bounds how often a name is looked up.
const shortestLook = 100 * time.Millisecond

// scheme is how replicas that are found are reached, empty if none are.
func (pc *poolConfig) scheme() string {
	switch {
	case pc.DNS.Host == "":
		return ""
	case pc.DNS.Scheme != "":
		return pc.DNS.Scheme
	case pc.TLS != (upstreamTLS{}):
		return "https"
	}
	return "http"
}

// lists reports whether a replica of the pool is listed with the scheme.
func (pc *poolConfig) lists(scheme string) bool {
	return slices.ContainsFunc(pc.Replicas, func(r replicaConfig) bool { return strings.HasPrefix(r.URL, scheme+"://") })
}

// checkDNS finds what is wrong with a pool's name. It looks nothing up.
func (pc *poolConfig) checkDNS(at string, pool *registry.Pool, m *mistakes) {
	here := at + ".dns"
	switch {
	case m.lines[here] == 0 || m.unread[here]:
		return
	case pc.DNS == (dnsConfig{}):
		m.add(here, "says nothing; expected host and port, or no such line")
		return
	}
	cfg := registry.DNSConfig{
		Host: pc.DNS.Host, Port: pc.DNS.Port, Scheme: pc.DNS.Scheme,
		Interval: pc.DNS.Interval, Timeout: pc.DNS.Timeout, Misses: pc.DNS.Misses,
	}
	if cfg.Interval != 0 && cfg.Interval < shortestLook {
		m.add(here+".interval", "expected at least %v, or 0 for the default, got %v", shortestLook, cfg.Interval)
		cfg.Interval = 0
	}
	if _, err := registry.NewDNS(pool, cfg); err != nil {
		m.addError(here, &pc.DNS, err)
	}
	if pc.TLS != (upstreamTLS{}) && pc.DNS.Scheme == "http" {
		m.add(here+".scheme", "expected https, since the pool has tls")
	}
	if pc.scheme() == "https" && pc.TLS.ServerName == "" && pc.lists("https") {
		m.add(at+".tls.server_name", "must be set, since replicas are both listed and found: it is the name in all their certificates")
	}
}
