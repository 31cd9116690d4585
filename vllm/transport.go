package vllm

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// IdleTimeout is how long a connection is kept for reuse: less than the 5 s
// after which the engine's server closes it.
const IdleTimeout = 4 * time.Second

// handshakeTimeout is how long a replica has for its part of TLS.
const handshakeTimeout = 5 * time.Second

// TransportConfig adapts a transport to a pool of replicas.
type TransportConfig struct {
	Allow         []netip.Prefix // see Dialer
	DialTimeout   time.Duration  // see Dialer
	HeaderTimeout time.Duration  // from the request's last byte to the answer's head; an answer that is not streamed has none before it is complete. If zero, 10 minutes; below zero, none
	Idle          int            // idle connections kept per replica. If zero, 256
	TLS           *tls.Config    // for https. If nil, the system's roots; TLS 1.2 is the least in any case
	Files         *TLSFiles      // authorities and the gateway's own certificate, from files that may change. If nil, those of TLS
	HTTP2         bool           // offer HTTP/2 over TLS; the engine itself speaks HTTP/1.1 only
}

// NewTransport returns a transport for requests to replicas: no proxy from
// the environment, no compression, connections reused only as long as the
// engine keeps them, addresses checked at the dial. A transport never follows
// redirects; it replays a request by itself only if the request has GetBody,
// which a caller who counts attempts must leave nil.
func NewTransport(cfg TransportConfig) *http.Transport {
	d := &Dialer{Allow: cfg.Allow, Timeout: cfg.DialTimeout}
	t := &http.Transport{
		DialContext:            d.DialContext,
		TLSHandshakeTimeout:    handshakeTimeout,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        IdleTimeout,
		ResponseHeaderTimeout:  10 * time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      cfg.HTTP2,
	}
	if cfg.Idle > 0 {
		t.MaxIdleConnsPerHost = cfg.Idle
	}
	if cfg.HeaderTimeout != 0 {
		t.ResponseHeaderTimeout = max(cfg.HeaderTimeout, 0)
	}
	t.TLSClientConfig = &tls.Config{}
	if cfg.TLS != nil {
		t.TLSClientConfig = cfg.TLS.Clone()
	}
	t.TLSClientConfig.MinVersion = max(t.TLSClientConfig.MinVersion, tls.VersionTLS12)
	if cfg.Files != nil {
		base := cfg.Files.base(t.TLSClientConfig, cfg.HTTP2)
		t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return cfg.Files.dial(ctx, d, base, network, address)
		}
	}
	return t
}

// NewClient returns a client for the engine's small questions (metrics,
// models, version). It does not follow redirects: the caller sees the 3xx. If
// transport is nil it is NewTransport's. The key, if any, is sent as a bearer
// token, but only to paths the engine protects.
func NewClient(transport http.RoundTripper, key string) *http.Client {
	if transport == nil {
		transport = NewTransport(TransportConfig{Idle: 2})
	}
	if key != "" {
		transport = bearer{transport, key}
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bearer adds the engine's key.
type bearer struct {
	next http.RoundTripper
	key  string
}

// RoundTrip sends a copy of the request with the key.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if protected(r.URL.Path) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.key)
	}
	return b.next.RoundTrip(r)
}

// CloseIdleConnections passes the wish on to the transport below.
func (b bearer) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
