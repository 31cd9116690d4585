package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/expediterhq/expediter/internal/certs"
)

// secured reports whether something is said on how to speak TLS with Redis.
func (c *redisConfig) secured() bool {
	return c.CA != "" || c.Cert != "" || c.Key != "" || c.ServerName != ""
}

func (c *redisConfig) source() *certs.Source {
	return &certs.Source{CA: c.CA, Cert: c.Cert, Key: c.Key}
}

// redisDial bounds a connection to Redis and its handshake.
const redisDial = 2 * time.Second

// dialer connects to Redis over TLS, with the files as they are then.
func (c *redisConfig) dialer(logger *slog.Logger) func(ctx context.Context, network, addr string) (net.Conn, error) {
	source := c.source()
	source.Report = reportTLS("redis", source, logger)
	base := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		one, err := source.Client(base, host)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, redisDial)
		defer cancel()
		plain, err := (&net.Dialer{KeepAlive: time.Minute}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(plain, one)
		if err := conn.HandshakeContext(ctx); err != nil {
			plain.Close()
			return nil, err
		}
		return conn, nil
	}
}
