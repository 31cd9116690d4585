package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/expediterhq/expediter/internal/rawio"
)

// Config configures a Transport.
type Config struct {
	// Dial makes a connection; it must not be nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// DialTLS makes a connection for https, the handshake done. If nil, Dial
	// and then a handshake by TLS, which must not be nil if https is asked
	// for, within TLSTimeout.
	DialTLS    func(ctx context.Context, network, address string) (net.Conn, error)
	TLS        *tls.Config
	TLSTimeout time.Duration

	Idle        int           // connections kept per address; 0: none
	IdleTimeout time.Duration // how long they are kept

	HeadTimeout time.Duration // from the request's last byte, its first where the body is above 64 KiB, to the end of the answer's head; 0: none
	MaxHead     int           // bytes of the answer's head; must be positive
}

// Transport is an http.RoundTripper. It is safe for concurrent use.
//
// Each request is sent once: an error says nothing about how far it came. The
// body of an answer must be read to its end, or closed; one that was read to
// its end leaves its connection to the next request. The end of a request's
// context breaks its connection off at any time.
type Transport struct {
	cfg  Config
	idle idle
}

// New returns a Transport.
func New(cfg Config) *Transport {
	t := &Transport{cfg: cfg}
	t.idle.init(cfg.Idle, cfg.IdleTimeout)
	return t
}

// CloseIdleConnections closes the connections that are not in use.
func (t *Transport) CloseIdleConnections() { t.idle.closeAll() }

// Dial makes a connection as for a request, without TLS.
func (t *Transport) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return t.cfg.Dial(ctx, network, address)
}

// RoundTrip sends one request and returns the answer once its head has come.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if s := r.URL.Scheme; s != "http" && s != "https" {
		return nil, fmt.Errorf("h1: scheme %q is neither http nor https", s)
	}
	room := requests.Get().(*[]byte)
	head, err := appendHead((*room)[:0], r)
	if err != nil {
		return nil, err
	}
	body, err := content(r)
	if err != nil {
		return nil, err
	}
	held, _ := r.Body.(*Content)
	if len(body) <= inline {
		head = append(head, body...)
		body = nil
		if held != nil {
			held.done()
		}
	}
	c, err := t.connection(r)
	if err != nil {
		return nil, ended(r.Context(), err)
	}
	traceConn(r.Context(), c)
	x := &exchange{t: t, conn: c, content: held}
	x.release = context.AfterFunc(r.Context(), c.abort)
	resp, err := x.roundTrip(r, head, body)
	if x.sent == nil && cap(head) <= 2*inline {
		*room = head
		requests.Put(room)
	}
	if err != nil {
		x.fail()
		return nil, ended(r.Context(), err)
	}
	return resp, nil
}

// ended is the reason for which ctx ended, where that is why there is err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// connection returns one that was kept, or a new one.
func (t *Transport) connection(r *http.Request) (*conn, error) {
	key := address{secure: r.URL.Scheme == "https", host: r.URL.Host}
	if c := t.idle.take(key); c != nil {
		return c, nil
	}
	return t.dial(r.Context(), key)
}

func (t *Transport) dial(ctx context.Context, key address) (*conn, error) {
	dial := t.cfg.Dial
	if key.secure {
		dial = t.secure
		if t.cfg.DialTLS != nil {
			dial = t.cfg.DialTLS
		}
	}
	c, err := dial(ctx, "tcp", key.hostPort())
	if err != nil {
		return nil, err
	}
	return newConn(key, c), nil
}

// secure connects and shakes hands.
func (t *Transport) secure(ctx context.Context, network, address string) (net.Conn, error) {
	if t.cfg.TLS == nil {
		return nil, errors.New("h1: https without a TLS configuration")
	}
	raw, err := t.cfg.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	cfg := t.cfg.TLS
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(address)
	}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.TLSTimeout)
	defer cancel()
	c := tls.Client(rawio.Wrap(raw), cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("h1: TLS handshake: %w", err)
	}
	return c, nil
}

// address is where a connection leads.
type address struct {
	secure bool
	host   string // as in the URL
}

// hostPort adds the scheme's port to a host without one.
func (a address) hostPort() string {
	if _, _, err := net.SplitHostPort(a.host); err == nil {
		return a.host
	}
	host := a.host
	if n := len(host); n > 1 && host[0] == '[' && host[n-1] == ']' {
		host = host[1 : n-1]
	}
	if a.secure {
		return net.JoinHostPort(host, "443")
	}
	return net.JoinHostPort(host, "80")
}
