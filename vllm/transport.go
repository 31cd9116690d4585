package vllm

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/expediterhq/expediter/internal/h1"
)

// IdleTimeout is how long a connection is kept for reuse: less than the 5 s
// after which the engine's server closes it.
const IdleTimeout = 4 * time.Second

// handshakeTimeout is how long a replica has for its part of TLS.
const handshakeTimeout = 5 * time.Second

// maxHead is the largest head of an answer, in bytes.
const maxHead = 64 << 10

// TransportConfig adapts a transport to a pool of replicas.
type TransportConfig struct {
	Allow         []netip.Prefix // see Dialer
	DialTimeout   time.Duration  // see Dialer
	HeaderTimeout time.Duration  // from the request's last byte, or from its first if its body is above 64 KiB, to the answer's head; an answer that is not streamed has none before it is complete. If zero, 10 minutes; below zero, none
	Idle          int            // idle connections kept per replica. If zero, 256
	TLS           *tls.Config    // for https. If nil, the system's roots; TLS 1.2 is the least in any case
	Files         *TLSFiles      // authorities and the gateway's own certificate, from files that may change. If nil, those of TLS
	HTTP2         bool           // offer HTTP/2 over TLS; the engine itself speaks HTTP/1.1 only
}

// Transport sends requests to replicas. It is safe for concurrent use.
type Transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// NewTransport returns a transport for requests to replicas: no proxy from
// the environment, no compression, no redirects, no replay, connections reused
// only as long as the engine keeps them, addresses checked at the dial.
func NewTransport(cfg TransportConfig) Transport {
	d := &Dialer{Allow: cfg.Allow, Timeout: cfg.DialTimeout}
	secure := &tls.Config{}
	if cfg.TLS != nil {
		secure = cfg.TLS.Clone()
	}
	secure.MinVersion = max(secure.MinVersion, tls.VersionTLS12)
	var dialTLS func(ctx context.Context, network, address string) (net.Conn, error)
	if cfg.Files != nil {
		secure = cfg.Files.base(secure, cfg.HTTP2)
		dialTLS = func(ctx context.Context, network, address string) (net.Conn, error) {
			return cfg.Files.dial(ctx, d, secure, network, address)
		}
	}
	idle := cmp.Or(max(cfg.Idle, 0), 256)
	head := max(cmp.Or(cfg.HeaderTimeout, 10*time.Minute), 0)
	if cfg.HTTP2 {
		return &http.Transport{
			DialContext:            d.DialContext,
			DialTLSContext:         dialTLS,
			TLSClientConfig:        secure,
			TLSHandshakeTimeout:    handshakeTimeout,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    idle,
			IdleConnTimeout:        IdleTimeout,
			ResponseHeaderTimeout:  head,
			MaxResponseHeaderBytes: maxHead,
			ForceAttemptHTTP2:      true,
		}
	}
	return h1.New(h1.Config{
		Dial: d.DialContext, DialTLS: dialTLS,
		TLS: secure, TLSTimeout: handshakeTimeout,
		Idle: idle, IdleTimeout: IdleTimeout,
		HeadTimeout: head, MaxHead: maxHead,
	})
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
