package vllm_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/certs/certtest"
	"github.com/expediterhq/expediter/vllm"
)

// secured is a replica that speaks TLS and remembers every byte that came
// after a handshake, and who sent it.
type secured struct {
	*httptest.Server
	mu     sync.Mutex
	heard  bytes.Buffer
	shown  []string // common names of clients' certificates
	config *tls.Config
}

// listening hears what is read from a connection.
type listening struct {
	*tls.Conn
	s *secured
}

func (c listening) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.heard.Write(p[:n])
	return n, err
}

type tlsListener struct {
	net.Listener
	s *secured
}

func (l tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return listening{tls.Server(c, l.s.config), l.s}, nil
}

// newSecured starts a replica whose answers are in two halves: the second
// comes when rest is closed.
func newSecured(t *testing.T, config *tls.Config, rest <-chan struct{}) *secured {
	t.Helper()
	s := &secured{config: config}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		if rest != nil {
			<-rest
		}
		_, _ = io.WriteString(w, "second")
	}))
	s.Listener = tlsListener{s.Listener, s}
	s.Start()
	s.URL = strings.Replace(s.URL, "http://", "https://", 1)
	t.Cleanup(s.Close)
	return s
}

// use changes what the replica shows from the next connection on.
func (s *secured) use(config *tls.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = config
}

// shows is a replica's configuration with a certificate; clients have to
// come from an authority, unless that is nil.
func (s *secured) shows(t *testing.T, p certtest.Pair, clients *certtest.Authority) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{p.TLS(t)}}
	if clients != nil {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, clients.Pool()
	}
	c.VerifyConnection = func(state tls.ConnectionState) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range state.PeerCertificates[:min(1, len(state.PeerCertificates))] {
			s.shown = append(s.shown, c.Subject.CommonName)
		}
		return nil
	}
	return c
}

const secretPrompt = "the prompt that must not leave"

func ask(tr http.RoundTripper, url string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, url+"/v1/completions", strings.NewReader(secretPrompt))
	if err != nil {
		return nil, err
	}
	return tr.RoundTrip(req)
}

// TestTLSFilesVerify: whom a transport talks to. Nothing of a request reaches
// a replica whose certificate is wrong.
func TestTLSFilesVerify(t *testing.T) {
	ours, strange := certtest.New(t, "ours"), certtest.New(t, "strange")
	dir := t.TempDir()
	ca := certtest.Write(t, dir, "ca.pem", ours.PEM)
	cert, key := ours.Issue("gateway").Write(t, dir, "gateway")
	alienCert, alienKey := strange.Issue("alien").Write(t, dir, "alien")
	good := ours.Issue("replica", "127.0.0.1")
	for _, tc := range []struct {
		name    string
		files   *vllm.TLSFiles
		replica certtest.Pair
		clients *certtest.Authority
		most    uint16 // the replica's version
		want    bool
	}{
		{"ours", &vllm.TLSFiles{CA: ca}, good, nil, 0, true},
		{"by another name", &vllm.TLSFiles{CA: ca, ServerName: "engines.test"}, ours.Issue("replica", "engines.test"), nil, 0, true},
		{"mutual", &vllm.TLSFiles{CA: ca, Cert: cert, Key: key}, good, ours, 0, true},
		{"mutual, TLS 1.2", &vllm.TLSFiles{CA: ca, Cert: cert, Key: key}, good, ours, tls.VersionTLS12, true},
		{"of a stranger", &vllm.TLSFiles{CA: ca}, strange.Issue("replica", "127.0.0.1"), nil, 0, false},
		{"the system's roots", &vllm.TLSFiles{}, good, nil, 0, false},
		{"of another address", &vllm.TLSFiles{CA: ca}, ours.Issue("replica", "10.0.0.1"), nil, 0, false},
		{"not by the name", &vllm.TLSFiles{CA: ca, ServerName: "engines.test"}, good, nil, 0, false},
		{"expired", &vllm.TLSFiles{CA: ca}, ours.IssueFor("replica", time.Now().Add(-time.Minute), "127.0.0.1"), nil, 0, false},
		{"too old a version", &vllm.TLSFiles{CA: ca, MinVersion: tls.VersionTLS13}, good, nil, tls.VersionTLS12, false},
		{"far too old a version", &vllm.TLSFiles{CA: ca, MinVersion: tls.VersionTLS10}, good, nil, tls.VersionTLS11, false},
		{"without our certificate", &vllm.TLSFiles{CA: ca}, good, ours, tls.VersionTLS12, false},
		{"with a stranger's certificate", &vllm.TLSFiles{CA: ca, Cert: alienCert, Key: alienKey}, good, ours, tls.VersionTLS12, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSecured(t, nil, nil)
			config := s.shows(t, tc.replica, tc.clients)
			config.MinVersion, config.MaxVersion = tls.VersionTLS10, tc.most
			s.use(config)
			tr := vllm.NewTransport(vllm.TransportConfig{Files: tc.files})
			defer tr.CloseIdleConnections()
			resp, err := ask(tr, s.URL)
			if err == nil {
				if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "first second" {
					t.Errorf("answer = %q, %v", b, err)
				}
				resp.Body.Close()
			}
			if (err == nil) != tc.want {
				t.Errorf("error = %v, want an answer: %t", err, tc.want)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if heard := s.heard.String(); strings.Contains(heard, secretPrompt) != tc.want || !tc.want && heard != "" {
				t.Errorf("the replica heard %q", heard)
			}
		})
	}
}

// TestTLSFilesRotate: certificates and authorities are renewed while a stream
// is open: it goes on, and the next connection uses the new ones.
func TestTLSFilesRotate(t *testing.T) {
	first, second := certtest.New(t, "first"), certtest.New(t, "second")
	dir := t.TempDir()
	var reports []error
	files := &vllm.TLSFiles{CA: certtest.Write(t, dir, "ca.pem", first.PEM), Report: func(err error) { reports = append(reports, err) }}
	files.Cert, files.Key = first.Issue("gateway-1").Write(t, dir, "gateway")
	rest := make(chan struct{})
	s := newSecured(t, nil, rest)
	s.use(s.shows(t, first.Issue("replica", "127.0.0.1"), first))
	tr := vllm.NewTransport(vllm.TransportConfig{Files: files})
	defer tr.CloseIdleConnections()
	open, err := ask(tr, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	half := make([]byte, len("first "))
	if _, err := io.ReadFull(open.Body, half); err != nil {
		t.Fatal(err)
	}

	s.use(s.shows(t, second.Issue("replica", "127.0.0.1"), second))
	if resp, err := ask(tr, s.URL); err == nil {
		resp.Body.Close()
		t.Error("a replica of an authority that is not known yet was believed")
	} else if unknown := new(x509.UnknownAuthorityError); !errors.As(err, unknown) {
		t.Errorf("error = %v", err)
	}
	second.Issue("gateway-2").Write(t, dir, "gateway")
	certtest.Write(t, dir, "ca.pem", second.PEM)
	next, err := ask(tr, s.URL)
	if err != nil {
		t.Fatalf("after renewal: %v", err)
	}
	defer next.Body.Close()

	certtest.Write(t, dir, "gateway.pem", []byte("half of it"))
	third, err := ask(tr, s.URL)
	if err != nil {
		t.Fatalf("with a file that is half written: %v", err)
	}
	defer third.Body.Close()
	var at *vllm.FileError
	if len(reports) != 1 || !errors.As(reports[0], &at) || at.Field != "Cert" {
		t.Errorf("reports = %v, want one for Cert", reports)
	}

	second.Issue("gateway-2").Write(t, dir, "gateway")
	files.Version() // looks at them
	if len(reports) != 2 || reports[1] != nil {
		t.Errorf("reports = %v, want nil after the files are good again", reports)
	}

	close(rest)
	for _, resp := range []*http.Response{open, next, third} {
		if b, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(b), "second") {
			t.Errorf("the rest = %q, %v", b, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := []string{"gateway-1", "gateway-2", "gateway-2"}; !slices.Equal(s.shown, want) {
		t.Errorf("the replica was shown %q, want %q", s.shown, want)
	}
}

// TestTLSFilesCheck: bad files are told before anything is connected.
func TestTLSFilesCheck(t *testing.T) {
	dir, a := t.TempDir(), certtest.New(t, "a")
	cert, key := a.IssueFor("old", time.Now().Add(-time.Minute)).Write(t, dir, "old")
	good := &vllm.TLSFiles{CA: certtest.Write(t, dir, "ca.pem", a.PEM), Cert: cert, Key: key}
	if err := good.Check(); err != nil {
		t.Errorf("Check = %v", err)
	}
	var at *vllm.FileError
	if errs := good.Outdated(time.Now()); len(errs) != 1 || !errors.As(errs[0], &at) || at.Field != "Cert" {
		t.Errorf("Outdated = %v, want one for Cert", errs)
	}
	bad := &vllm.TLSFiles{CA: key}
	if err := bad.Check(); !errors.As(err, &at) || at.Field != "CA" || !strings.HasPrefix(err.Error(), "vllm: TLS file CA: ") {
		t.Errorf("Check = %v", err)
	}
	tr := vllm.NewTransport(vllm.TransportConfig{Files: bad})
	if _, err := ask(tr, "https://127.0.0.1:1"); !errors.As(err, &at) {
		t.Errorf("a connection with a bad file: %v", err)
	}
	// The same files used for HTTP/2.
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{a.Issue("replica", "127.0.0.1").TLS(t)}}
	s.StartTLS()
	defer s.Close()
	two := vllm.NewTransport(vllm.TransportConfig{HTTP2: true, Files: &vllm.TLSFiles{CA: good.CA}})
	defer two.CloseIdleConnections()
	resp, err := ask(two, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "HTTP/2.0" {
		t.Errorf("%q, %v", b, err)
	}
}
