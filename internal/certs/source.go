// Package certs reads certificates, keys and authorities from files, anew
// whenever these have changed.
package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Source is one side of TLS connections as files describe it. Its fields
// must not be changed once it is in use; methods may be called by several
// goroutines.
type Source struct {
	CA        string // file with the authorities that peers' certificates must come from. If empty, none
	Cert, Key string // files with a certificate chain and its key. If empty, none

	// Report is told when files that were good are good no longer, once for
	// each way to be bad, and nil when they are good again; what they held before
	// stays in use meanwhile. It must not call this Source. If nil, nobody is told.
	Report func(error)

	mu       sync.Mutex
	read     [3][]byte // of CA, Cert and Key, as they were last good
	current  *Material
	version  uint64 // how often they were good and new
	reported string
}

// Material is what the files of a Source held at one time.
type Material struct {
	Roots *x509.CertPool   // nil without CA
	Cert  *tls.Certificate // nil without Cert

	authorities []*x509.Certificate
}

// FileError says which file of a Source is at fault.
type FileError struct {
	Field string // CA, Cert or Key
	Err   error
}

func (e *FileError) Error() string { return e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

// Load returns what the files hold. They are read at each call, which costs
// little beside a handshake and notices every change, also one within the
// resolution of file times; they are parsed only if they have changed. Where
// one of them cannot be used, Load returns what they held before, if there was
// such a time, or a *FileError.
func (s *Source) Load() (*Material, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	read, err := s.files()
	if err == nil {
		if s.current != nil && same(read, s.read) {
			s.tell(nil)
			return s.current, nil
		}
		var m *Material
		if m, err = parse(read); err == nil {
			s.current, s.read = m, read
			s.version++
			s.tell(nil)
			return m, nil
		}
	}
	if s.current == nil {
		return nil, err
	}
	s.tell(err)
	return s.current, nil
}

// tell reports err, or nil, unless that is what was reported last.
func (s *Source) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == s.reported {
		return
	}
	s.reported = text
	if s.Report != nil {
		s.Report(err)
	}
}

// Version returns a number that grows whenever Load, which it calls, finds
// other files that are good. It is zero before there are any.
func (s *Source) Version() uint64 {
	_, _ = s.Load() // told to whoever connects
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func same(a, b [3][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// fields names the files in the order in which they are kept.
var fields = [3]string{"CA", "Cert", "Key"}

// maxFile bounds what is read of one file, in bytes.
const maxFile = 4 << 20

func (s *Source) files() (read [3][]byte, err error) {
	for i, name := range [3]string{s.CA, s.Cert, s.Key} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return read, &FileError{fields[i], err}
		case info.IsDir():
			return read, &FileError{fields[i], fmt.Errorf("%q is a directory", name)}
		case !info.Mode().IsRegular(): // a pipe would hold up every handshake, and some devices never end
			return read, &FileError{fields[i], fmt.Errorf("%q is not a regular file", name)}
		case info.Size() > maxFile:
			return read, &FileError{fields[i], fmt.Errorf("%q has more than %d bytes", name, maxFile)}
		}
		if read[i], err = os.ReadFile(name); err != nil {
			return read, &FileError{fields[i], err}
		}
	}
	return read, nil
}

func parse(read [3][]byte) (*Material, error) {
	for i, data := range read {
		if !whole(data) {
			return nil, &FileError{fields[i], errors.New("holds a PEM block that has begun and is not whole")}
		}
	}
	m := new(Material)
	if read[0] != nil {
		var err error
		if m.authorities, err = authorities(read[0]); err != nil {
			return nil, &FileError{"CA", err}
		}
		m.Roots = x509.NewCertPool()
		for _, c := range m.authorities {
			m.Roots.AddCert(c)
		}
	}
	switch {
	case read[1] == nil && read[2] == nil:
		return m, nil
	case read[1] == nil:
		return nil, &FileError{"Cert", errors.New("there is a key without its certificate")}
	case read[2] == nil:
		return nil, &FileError{"Key", errors.New("there is a certificate without its key")}
	}
	pair, err := tls.X509KeyPair(read[1], read[2])
	if err != nil {
		return nil, &FileError{atFault(read[1]), err}
	}
	m.Cert = &pair
	return m, nil
}

// begin is how the first line of a PEM block does.
const begin = "-----BEGIN"

// whole reports whether every PEM block that begins in data can be decoded.
// What decodes PEM skips the others, so that of a list of which the last part
// is not written yet only the first part would count. Data without a whole
// block is for those who look for one.
func whole(data []byte) bool {
	begun, decoded := 0, 0
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte(begin)) || len(line) > 0 && bytes.HasPrefix([]byte(begin), line) {
			begun++ // also where the file ends within the word
		}
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		decoded++
	}
	return decoded == 0 || begun <= decoded
}

// atFault tells whether a pair that does not load does so for its
// certificate; else it is for the key, or because the two do not match.
func atFault(cert []byte) string {
	if list, err := authorities(cert); err != nil || len(list) == 0 {
		return "Cert"
	}
	return "Key"
}

// authorities reads the certificates of a PEM file, all of which must be
// good: one that is passed over is missed only when it is needed.
func authorities(data []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("holds no PEM block of type CERTIFICATE")
	}
	return list, nil
}

// Outdated returns a *FileError for each file whose certificate, or all of
// whose authorities, are not valid at the time.
func (m *Material) Outdated(now time.Time) []error {
	var errs []error
	if m.Cert != nil && m.Cert.Leaf != nil {
		if err := valid(m.Cert.Leaf, now); err != nil {
			errs = append(errs, &FileError{"Cert", err})
		}
	}
	var last error
	for _, c := range m.authorities {
		if last = valid(c, now); last == nil {
			break
		}
	}
	if last != nil {
		errs = append(errs, &FileError{"CA", last})
	}
	return errs
}

func valid(c *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(c.NotBefore):
		return fmt.Errorf("is not valid before %s", c.NotBefore.UTC().Format(time.RFC3339))
	case now.After(c.NotAfter):
		return fmt.Errorf("expired on %s", c.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
