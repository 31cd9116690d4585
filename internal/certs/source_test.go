package certs_test

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/certs"
	"github.com/expediterhq/expediter/internal/certs/certtest"
)

// name is the common name of a Source's certificate.
func name(t *testing.T, s *certs.Source) string {
	t.Helper()
	m, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return m.Cert.Leaf.Subject.CommonName
}

// TestLoadSeesEveryChange: also of files that have the same size and time.
func TestLoadSeesEveryChange(t *testing.T) {
	dir, a := t.TempDir(), certtest.New(t, "a")
	first, second := a.Issue("one"), a.Issue("two")
	s := new(certs.Source)
	s.Cert, s.Key = first.Write(t, dir, "x")
	at := time.Now().Add(-time.Hour)
	var before *certs.Material
	if n := (&certs.Source{Cert: "nowhere", Key: "nowhere"}).Version(); n != 0 {
		t.Errorf("Version = %d without files", n)
	}
	for i, p := range []struct {
		pair certtest.Pair
		name string
	}{{first, "one"}, {second, "two"}, {first, "one"}} {
		p.pair.Write(t, dir, "x")
		for _, f := range []string{s.Cert, s.Key} {
			if err := os.Chtimes(f, at, at); err != nil {
				t.Fatal(err)
			}
		}
		if got := name(t, s); got != p.name {
			t.Errorf("certificate of %s, want %s", got, p.name)
		}
		m, _ := s.Load()
		again, _ := s.Load()
		if n := s.Version(); n != uint64(i+1) {
			t.Errorf("Version = %d, want %d", n, i+1)
		}
		if m != again || m == before {
			t.Error("files were parsed again without a change, or not parsed after one")
		}
		before = m
	}
}

// TestLoadKeepsWhatWasGood: half-renewed and broken files change nothing and
// are reported once; the next good ones count.
func TestLoadKeepsWhatWasGood(t *testing.T) {
	dir, a := t.TempDir(), certtest.New(t, "a")
	var reports []error
	s := &certs.Source{CA: certtest.Write(t, dir, "ca.pem", a.PEM), Report: func(err error) { reports = append(reports, err) }}
	s.Cert, s.Key = a.Issue("one").Write(t, dir, "x")
	if got := name(t, s); got != "one" {
		t.Fatalf("certificate of %s", got)
	}
	next := a.Issue("two")
	steps := []struct {
		what  string
		do    func()
		field string // reported; empty: nothing, good: that all are again
		name  string
	}{
		{"the certificate without its key", func() { certtest.Write(t, dir, "x.pem", next.Cert) }, "Key", "one"},
		{"the same again", func() {}, "", "one"},
		{"the key too", func() { certtest.Write(t, dir, "x-key.pem", next.Key) }, "good", "two"},
		{"no key", func() { certtest.Write(t, dir, "x-key.pem", nil) }, "Key", "two"},
		{"no certificate", func() { certtest.Write(t, dir, "x.pem", []byte("nonsense")) }, "Cert", "two"},
		{"no file", func() { _ = os.Remove(s.Cert) }, "Cert", "two"},
		{"no authority", func() { next.Write(t, dir, "x"); certtest.Write(t, dir, "ca.pem", next.Key) }, "CA", "two"},
		{"all good", func() { certtest.Write(t, dir, "ca.pem", a.PEM) }, "good", "two"},
		{"no certificate again", func() { certtest.Write(t, dir, "x.pem", []byte("nonsense")) }, "Cert", "two"},
		{"the same certificate", func() { next.Write(t, dir, "x") }, "good", "two"},
	}
	for _, step := range steps {
		reports = nil
		step.do()
		if got := name(t, s); got != step.name {
			t.Errorf("%s: certificate of %s, want %s", step.what, got, step.name)
		}
		name(t, s) // a second look is not a second report
		var at *certs.FileError
		switch {
		case step.field == "" && len(reports) > 0:
			t.Errorf("%s: reported %v", step.what, reports)
		case step.field == "good" && (len(reports) != 1 || reports[0] != nil):
			t.Errorf("%s: reported %v, want one nil", step.what, reports)
		case step.field != "" && step.field != "good" && (len(reports) != 1 || !errors.As(reports[0], &at) || at.Field != step.field):
			t.Errorf("%s: reported %v, want one for %s", step.what, reports, step.field)
		}
	}
}

// TestLoadSeesHalfWrittenLists: a file that ends within its second block is not
// taken for one that has only the first.
func TestLoadSeesHalfWrittenLists(t *testing.T) {
	dir, a, b := t.TempDir(), certtest.New(t, "a"), certtest.New(t, "b")
	var reports []error
	s := &certs.Source{CA: certtest.Write(t, dir, "ca.pem", a.PEM), Report: func(err error) { reports = append(reports, err) }}
	pair := a.Issue("one")
	s.Cert, s.Key = pair.Write(t, dir, "x")
	before, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		field, file string
		first       []byte
	}{{"CA", "ca.pem", a.PEM}, {"Cert", "x.pem", pair.Cert}} {
		for _, n := range []int{1, 5, 10, 11, 27, 28, 200, len(b.PEM) - 20} {
			reports = nil
			certtest.Write(t, dir, tc.file, append(append([]byte(nil), tc.first...), b.PEM[:n]...))
			if m, err := s.Load(); err != nil || m != before {
				t.Errorf("%s, and %d bytes: %p, %v, want what was before, %p", tc.field, n, m, err, before)
			}
			var at *certs.FileError
			if len(reports) != 1 || !errors.As(reports[0], &at) || at.Field != tc.field {
				t.Errorf("%s, and %d bytes: reported %v, want one for %s", tc.field, n, reports, tc.field)
			}
			certtest.Write(t, dir, tc.file, tc.first)
			if m, err := s.Load(); err != nil || m != before || reports[len(reports)-1] != nil {
				t.Errorf("%s without them: %p, %v, reported %v, want %p and nil", tc.field, m, err, reports, before)
			}
		}
		with := append([]byte("# one\n"), tc.first...)
		certtest.Write(t, dir, tc.file, append(append(with, "\n# two ----\n"...), b.PEM...))
		m, err := s.Load()
		if err != nil || m == before {
			t.Errorf("%s, and all: %p, %v, want another than %p", tc.field, m, err, before)
		}
		before = m
		certtest.Write(t, dir, tc.file, tc.first)
		if before, err = s.Load(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	dir, a, b := t.TempDir(), certtest.New(t, "a"), certtest.New(t, "b")
	cert, key := a.Issue("a").Write(t, dir, "a")
	_, other := b.Issue("b").Write(t, dir, "b")
	ca := certtest.Write(t, dir, "ca.pem", a.PEM)
	half := certtest.Write(t, dir, "half.pem", append(append([]byte(nil), a.PEM...), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...))
	large := certtest.Write(t, dir, "large.pem", make([]byte, 5<<20))
	for _, tc := range []struct {
		name  string
		s     *certs.Source
		field string // at fault; empty: none
	}{
		{"nothing", &certs.Source{}, ""},
		{"all", &certs.Source{CA: ca, Cert: cert, Key: key}, ""},
		{"authorities only", &certs.Source{CA: ca}, ""},
		{"no key", &certs.Source{Cert: cert}, "Key"},
		{"no certificate", &certs.Source{Key: key}, "Cert"},
		{"of two pairs", &certs.Source{Cert: cert, Key: other}, "Key"},
		{"key as certificate", &certs.Source{Cert: key, Key: key}, "Cert"},
		{"key as authority", &certs.Source{CA: key}, "CA"},
		{"authority that is half there", &certs.Source{CA: half}, "CA"},
		{"no such file", &certs.Source{CA: filepath.Join(dir, "nowhere")}, "CA"},
		{"directory", &certs.Source{Cert: dir, Key: key}, "Cert"},
		{"too large", &certs.Source{CA: large}, "CA"},
	} {
		_, err := tc.s.Load()
		var at *certs.FileError
		if (err == nil) != (tc.field == "") || err != nil && (!errors.As(err, &at) || at.Field != tc.field) {
			t.Errorf("%s: Load = %v, want an error for %q", tc.name, err, tc.field)
		}
	}
}

func TestOutdated(t *testing.T) {
	dir, a := t.TempDir(), certtest.New(t, "a")
	now := time.Now()
	s := &certs.Source{CA: certtest.Write(t, dir, "ca.pem", a.PEM)}
	s.Cert, s.Key = a.IssueFor("old", now.Add(-time.Minute)).Write(t, dir, "x")
	m, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		at   time.Time
		want []string
	}{
		{"before", now.Add(-48 * time.Hour), []string{"Cert", "CA"}},
		{"within", now.Add(-30 * time.Minute), nil},
		{"after", now, []string{"Cert"}},
		{"long after", now.Add(48 * time.Hour), []string{"Cert", "CA"}},
	} {
		errs := m.Outdated(tc.at)
		var got []string
		for _, err := range errs {
			var at *certs.FileError
			if errors.As(err, &at) {
				got = append(got, at.Field)
			}
		}
		if len(got) != len(tc.want) || len(got) > 0 && (got[0] != tc.want[0] || got[len(got)-1] != tc.want[len(got)-1]) {
			t.Errorf("%s: %v, want errors for %q", tc.name, errs, tc.want)
		}
	}
}

// shake connects the two sides and returns the server's and the client's
// verdict.
func shake(t *testing.T, server, client *tls.Config) (theirs, ours error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = c.Write([]byte("x")) // shakes hands first
			c.Close()
		}
		done <- err
	}()
	c, ours := tls.Dial("tcp", l.Addr().String(), client)
	if ours == nil {
		_, ours = io.ReadFull(c, make([]byte, 1))
		c.Close()
	}
	return <-done, ours
}

// TestSides: who is let in by a server with and without client authorities,
// and whom a client believes, each time as the files are then.
func TestSides(t *testing.T) {
	dir, ours, strange := t.TempDir(), certtest.New(t, "ours"), certtest.New(t, "strange")
	server := new(certs.Source)
	server.Cert, server.Key = ours.Issue("server", "gateway.test").Write(t, dir, "server")
	client := &certs.Source{CA: certtest.Write(t, dir, "ca.pem", ours.PEM)}
	base := &tls.Config{MinVersion: tls.VersionTLS12}
	current := server
	config := certs.Server(base, func() *certs.Source { return current })
	try := func(what string, s *certs.Source, host string, want bool) {
		t.Helper()
		c, err := s.Client(base, host)
		if err != nil {
			t.Fatal(err)
		}
		theirs, mine := shake(t, config, c)
		if good := theirs == nil && mine == nil; good != want {
			t.Errorf("%s: server says %v, client %v; want good: %t", what, theirs, mine, want)
		}
	}
	try("anybody", client, "gateway.test", true)
	try("another name", client, "other.test", false)
	with := &certs.Source{CA: client.CA, Cert: server.Cert, Key: server.Key}
	current = with
	try("no certificate where one is asked for", client, "gateway.test", false)
	try("a good one", with, "gateway.test", true)
	alien := &certs.Source{CA: client.CA}
	alien.Cert, alien.Key = strange.Issue("alien").Write(t, dir, "alien")
	try("one of a stranger", alien, "gateway.test", false)
	certtest.Write(t, dir, "ca.pem", append(append([]byte(nil), ours.PEM...), strange.PEM...))
	try("a stranger that is one no more", alien, "gateway.test", true)
	certtest.Write(t, dir, "ca.pem", strange.PEM)
	try("a server of an authority that was taken out", alien, "gateway.test", false)
	if base.RootCAs != nil || base.ServerName != "" || base.GetConfigForClient != nil {
		t.Error("the base was changed")
	}
}

// TestNoResumption: where clients have to show a certificate, a session does
// not outlive the authority that it was begun with.
func TestNoResumption(t *testing.T) {
	dir, ours, next := t.TempDir(), certtest.New(t, "ours"), certtest.New(t, "next")
	ca := certtest.Write(t, dir, "ca.pem", ours.PEM)
	s := &certs.Source{CA: ca}
	s.Cert, s.Key = ours.Issue("server", "gateway.test").Write(t, dir, "server")
	config := certs.Server(&tls.Config{MinVersion: tls.VersionTLS12}, func() *certs.Source { return s })
	client := &tls.Config{
		ServerName: "gateway.test", RootCAs: ours.Pool(), ClientSessionCache: tls.NewLRUClientSessionCache(4),
		Certificates: []tls.Certificate{ours.Issue("client").TLS(t)},
	}
	for range 2 {
		if theirs, mine := shake(t, config, client); theirs != nil || mine != nil {
			t.Fatalf("server says %v, client %v", theirs, mine)
		}
	}
	certtest.Write(t, dir, "ca.pem", next.PEM)
	if theirs, _ := shake(t, config, client); theirs == nil {
		t.Error("a session was resumed after its authority had been taken out")
	}
}
