package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/internal/certs"
	"github.com/expediterhq/expediter/vllm"
)

// listenerTLS is what clients see of the gateway's certificate: always what
// the files hold at the moment of a handshake.
type listenerTLS struct {
	current atomic.Pointer[certs.Source]
	logger  *slog.Logger
}

// use takes the files that t names from the next handshake on. On an error
// nothing changes.
func (l *listenerTLS) use(t tlsConfig) error {
	s := t.source()
	s.Report = reportTLS("tls", s, l.logger)
	if _, err := s.Load(); err != nil {
		return err
	}
	l.current.Store(s)
	return nil
}

func (l *listenerTLS) config(t tlsConfig) *tls.Config {
	base := &tls.Config{MinVersion: tlsVersions[t.MinVersion], NextProtos: []string{"h2", "http/1.1"}}
	return certs.Server(base, l.current.Load)
}

func (t *tlsConfig) source() *certs.Source {
	return &certs.Source{CA: t.ClientCA, Cert: t.Cert, Key: t.Key}
}

func (t *upstreamTLS) source() *certs.Source {
	return &certs.Source{CA: t.CA, Cert: t.Cert, Key: t.Key}
}

// tlsVersions are the values of min_version.
var tlsVersions = map[string]uint16{"": tls.VersionTLS12, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// tlsSection is one part of the file that names certificates.
type tlsSection struct {
	path       string
	source     *certs.Source
	minVersion string
}

// tlsSections returns those of a configuration.
func (c *config) tlsSections() []tlsSection {
	var list []tlsSection
	if c.TLS != (tlsConfig{}) {
		list = append(list, tlsSection{"tls", c.TLS.source(), c.TLS.MinVersion})
	}
	for i := range c.Pools {
		if t := &c.Pools[i].TLS; *t != (upstreamTLS{}) {
			list = append(list, tlsSection{fmt.Sprintf("pools[%d].tls", i), t.source(), t.MinVersion})
		}
	}
	if c.Redis.secured() {
		list = append(list, tlsSection{"redis", c.Redis.source(), ""})
	}
	return list
}

// reportTLS returns a function that tells the log which file of a section cannot
// be used, and when all can be again.
func reportTLS(section string, s *certs.Source, logger *slog.Logger) func(error) {
	return func(err error) {
		if err == nil {
			logger.Info("the TLS files can be used again", "section", section)
			return
		}
		name := map[string]string{"CA": s.CA, "Cert": s.Cert, "Key": s.Key}[faulty(err)]
		logger.Error("a TLS file cannot be used; what it held before stays",
			"field", join(section, tlsField(section, err)), "file", name, "error", err)
	}
}

// faulty is the file that is at fault: CA, Cert or Key.
func faulty(err error) string {
	var listener *certs.FileError
	var replicas *vllm.FileError
	switch {
	case errors.As(err, &listener):
		return listener.Field
	case errors.As(err, &replicas):
		return replicas.Field
	}
	return ""
}

// tlsField is the name that a section of the file has for the file that is at
// fault.
func tlsField(section string, err error) string {
	field := faulty(err)
	if section == "tls" && field == "CA" {
		return "client_ca"
	}
	return strings.ToLower(field)
}

// checkTLS finds files that cannot be used, in every part of the file.
func checkTLS(c *config, m *mistakes) {
	if m.lines["tls"] > 0 && c.TLS == (tlsConfig{}) {
		m.add("tls", "names no file; expected cert and key, or no such line for clients without TLS")
	}
	for i := range c.Pools {
		if at := fmt.Sprintf("pools[%d].tls", i); m.lines[at] > 0 && c.Pools[i].TLS == (upstreamTLS{}) {
			m.add(at, "says nothing; expected one of %s, or no such line for the system's authorities", strings.Join(fieldNames(&c.Pools[i].TLS), ", "))
		}
	}
	for _, s := range c.tlsSections() {
		if _, ok := tlsVersions[s.minVersion]; !ok {
			m.add(s.path+".min_version", "expected %s, got %q", strings.Join(slices.Sorted(maps.Keys(tlsVersions))[1:], " or "), s.minVersion)
		}
		switch {
		case s.source.Cert == "" && s.source.Key != "":
			m.add(s.path+".cert", "must name the certificate that belongs to %s.key", s.path)
		case s.source.Key == "" && s.source.Cert != "":
			m.add(s.path+".key", "must name the key that belongs to %s.cert", s.path)
		case s.path == "tls" && s.source.Cert == "":
			m.add("tls.cert", "must name the certificate that clients see")
		default:
			if _, err := s.source.Load(); err != nil {
				m.add(join(s.path, tlsField(s.path, err)), "cannot be used: %v", err)
			}
		}
	}
}

// checkDates finds certificates that are not valid at the time. They are no
// reason not to start: what has nothing to do with them can be served.
func checkDates(c *config, now time.Time, m *mistakes) {
	for _, s := range c.tlsSections() {
		material, err := s.source.Load()
		if err != nil {
			continue // checkTLS has said so
		}
		for _, err := range material.Outdated(now) {
			m.add(join(s.path, tlsField(s.path, err)), "%v", err)
		}
	}
}
