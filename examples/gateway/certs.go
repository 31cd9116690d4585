package main

import (
	"crypto/tls"
	"sync/atomic"
)

// certs serves the certificate of the configuration, which a reload renews.
type certs struct {
	current atomic.Pointer[tls.Certificate]
}

func (c *certs) load(t tlsConfig) error {
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return err
	}
	c.current.Store(&cert)
	return nil
}

func (c *certs) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// checkTLS checks that a certificate and its key are both named and belong
// together.
func checkTLS(t tlsConfig, m *mistakes) {
	switch {
	case t == tlsConfig{}:
	case t.Cert == "":
		m.add("tls.cert", "must name the certificate that belongs to tls.key")
	case t.Key == "":
		m.add("tls.key", "must name the key that belongs to tls.cert")
	default:
		if err := new(certs).load(t); err != nil {
			m.add("tls.cert", "cannot load certificate and key: %v", err)
		}
	}
}
