package vllm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/expediterhq/expediter/internal/certs"
	"github.com/expediterhq/expediter/internal/rawio"
)

// TLSFiles says from which files a transport takes what it needs for TLS to
// replicas. They are read at each new connection, so that certificates and
// authorities can be renewed while streams run: these keep the connection they
// have. A replica is verified before anything of a request is sent to it. Its
// fields must not be changed once it is in use; a TLSFiles may be used by
// several transports.
type TLSFiles struct {
	CA         string // PEM file of the authorities that replicas' certificates must come from. If empty, the system's
	Cert, Key  string // PEM files of the certificate that replicas are shown, with its chain, and of its key. If empty, none is shown
	ServerName string // the name in the replicas' certificates. If empty, the host of their URL
	MinVersion uint16 // the least version of TLS. If zero, 1.2, which is the least in any case

	// Report is told when files that were good are good no longer, and nil when
	// they are good again; what they held before stays in use meanwhile. It must
	// not call this TLSFiles. If nil, nobody is told.
	Report func(error)

	once   sync.Once
	source certs.Source
}

// FileError says which field of a TLSFiles names a file that cannot be used.
type FileError struct {
	Field string // CA, Cert or Key
	Err   error
}

func (e *FileError) Error() string { return fmt.Sprintf("vllm: TLS file %s: %v", e.Field, e.Err) }

func (e *FileError) Unwrap() error { return e.Err }

// Check reads the files and returns a *FileError if one cannot be used.
func (f *TLSFiles) Check() error {
	_, err := f.load().Load()
	return fileError(err)
}

// Outdated returns a *FileError for each certificate that is not valid at the
// time. Unlike what Check finds it is no reason not to start: only connections
// to the replicas concerned fail.
func (f *TLSFiles) Outdated(now time.Time) []error {
	m, err := f.load().Load()
	if err != nil {
		return nil
	}
	errs := m.Outdated(now)
	for i := range errs {
		errs[i] = fileError(errs[i])
	}
	return errs
}

// Version returns a number that grows whenever the files have changed and are
// good. Kept connections are not affected by a change: whoever wants them
// renewed too takes another transport for the requests to come, which may use
// the same TLSFiles.
func (f *TLSFiles) Version() uint64 { return f.load().Version() }

func fileError(err error) error {
	var at *certs.FileError
	if errors.As(err, &at) {
		return &FileError{at.Field, at.Err}
	}
	return err
}

func (f *TLSFiles) load() *certs.Source {
	f.once.Do(func() {
		f.source.CA, f.source.Cert, f.source.Key = f.CA, f.Cert, f.Key
		if f.Report != nil {
			f.source.Report = func(err error) { f.Report(fileError(err)) }
		}
	})
	return &f.source
}

// base is what all connections have in common.
func (f *TLSFiles) base(c *tls.Config, http2 bool) *tls.Config {
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, f.MinVersion)
	if f.ServerName != "" {
		c.ServerName = f.ServerName
	}
	if http2 {
		c.NextProtos = []string{"h2", "http/1.1"}
	}
	return c
}

// dial connects and verifies the replica.
func (f *TLSFiles) dial(ctx context.Context, d *Dialer, base *tls.Config, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("vllm: %w", err)
	}
	c, err := f.load().Client(base, host)
	if err != nil {
		return nil, fileError(err)
	}
	plain, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn := tls.Client(rawio.Wrap(plain), c)
	if err := conn.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, fmt.Errorf("vllm: TLS to a replica: %w", err)
	}
	return conn, nil
}
