package certs

import "crypto/tls"

// Client returns the configuration for one connection to a server called
// name, as the files are at that moment: with CA, only its authorities count;
// without, the system's do. base gives the rest and is not changed.
func (s *Source) Client(base *tls.Config, name string) (*tls.Config, error) {
	m, err := s.Load()
	if err != nil {
		return nil, err
	}
	c := base.Clone()
	if c.ServerName == "" {
		c.ServerName = name
	}
	if m.Roots != nil {
		c.RootCAs = m.Roots
	}
	if m.Cert != nil {
		// Also where the server names authorities that did not sign it: the
		// server then says what is wrong, instead of missing a certificate.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.Cert, nil }
	}
	return c, nil
}

// Server returns a configuration that asks for the files at each handshake:
// clients see the certificate as it is then, and with CA have to show one of
// their own that comes from one of its authorities. Sessions are not resumed
// then, so that an authority that is taken out no longer counts for anybody.
// Each Source must name a certificate. base gives the rest and is not changed.
func Server(base *tls.Config, current func() *Source) *tls.Config {
	c := base.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m, err := current().Load()
		if err != nil {
			return nil, err
		}
		one := base.Clone()
		one.Certificates = []tls.Certificate{*m.Cert}
		if m.Roots != nil {
			one.ClientAuth, one.ClientCAs = tls.RequireAndVerifyClientCert, m.Roots
			one.SessionTicketsDisabled = true
		}
		return one, nil
	}
	return c
}
