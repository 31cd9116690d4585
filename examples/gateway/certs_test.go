package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/internal/certs"
	"github.com/expediterhq/expediter/internal/certs/certtest"
	"github.com/expediterhq/expediter/vllm"
)

// TestTLSMistakes: -check names the line and the field of each file that
// cannot be used, wherever certificates are named, and of each replica that
// would never be connected to.
func TestTLSMistakes(t *testing.T) {
	dir, a, b := t.TempDir(), certtest.New(t, "a"), certtest.New(t, "b")
	cert, key := a.Issue("a").Write(t, dir, "a")
	_, other := b.Issue("b").Write(t, dir, "b")
	ca := certtest.Write(t, dir, "ca.pem", a.PEM)
	files := strings.NewReplacer("CERT", cert, "OTHER", other, "KEY", key, "CA", ca)
	secure := strings.ReplaceAll(sound, "http://", "https://")
	const pool = "    served"
	for _, tc := range []struct{ name, old, new, want string }{
		{"listener", "pools:", "tls: {cert: CERT, key: KEY, client_ca: CA, min_version: 1.3}\npools:", ""},
		{"listener without key", "pools:", "tls: {cert: CERT}\npools:", "2: tls.key: must name the key"},
		{"listener without certificate", "pools:", "tls: {key: KEY}\npools:", "2: tls.cert: must name the certificate"},
		{"listener with authority alone", "pools:", "tls: {client_ca: CA}\npools:", "2: tls.cert: must name the certificate that clients see"},
		{"listener's empty section", "pools:", "tls:\npools:", "2: tls: names no file; expected cert and key, or no such line for clients without TLS"},
		{"listener's empty map", "pools:", "tls: {}\npools:", "2: tls: names no file"},
		{"listener's empty names", "pools:", "tls: {cert: '', key: ''}\npools:", "2: tls: names no file"},
		{"listener's section of another kind", "pools:", "tls: true\npools:", "2: tls: expected a map, found a value"},
		{"pool's empty section", pool, "    tls:\n    served", "4: pools[0].tls: says nothing; expected one of ca, cert, key, server_name, min_version, or no such line for the system's authorities"},
		{"pool's empty map", pool, "    tls: {}\n    served", "4: pools[0].tls: says nothing"},
		{"redis' empty switch", "pools:", "redis: {addresses: ['127.0.0.1:6379'], policy: open, tls: }\npools:", "2: redis.tls: expected true or false, found nothing"},
		{"listener's two pairs", "pools:", "tls:\n  cert: CERT\n  key: OTHER\npools:", "4: tls.key: cannot be used: tls: private key does not match"},
		{"listener's file", "pools:", "tls:\n  key: KEY\n  cert: /nowhere/x.pem\npools:", "4: tls.cert: cannot be used: stat /nowhere/x.pem"},
		{"clients' authorities", "pools:", "tls:\n  cert: CERT\n  key: KEY\n  client_ca: KEY\npools:", "5: tls.client_ca: cannot be used: holds no PEM block of type CERTIFICATE"},
		{"listener's version", "pools:", "tls: {cert: CERT, key: KEY, min_version: 1.1}\npools:", `2: tls.min_version: expected 1.2 or 1.3, got "1.1"`},
		{"pool", pool, "    tls: {ca: CA, cert: CERT, key: KEY, server_name: engines, min_version: 1.2}\n    served", ""},
		{"pool's authorities", pool, "    tls:\n      ca: /nowhere/ca.pem\n    served", "5: pools[0].tls.ca: cannot be used: stat /nowhere/ca.pem"},
		{"pool without key", pool, "    tls: {cert: CERT}\n    served", "4: pools[0].tls.key: must name the key that belongs to pools[0].tls.cert"},
		{"pool's two pairs", pool, "    tls: {ca: CA, cert: CERT, key: OTHER}\n    served", "4: pools[0].tls.key: cannot be used"},
		{"pool's directory", pool, "    tls: {ca: " + dir + "}\n    served", "4: pools[0].tls.ca: cannot be used: \"" + dir + "\" is a directory"},
		{"pool's version", pool, "    tls: {ca: CA, min_version: ssl3}\n    served", "4: pools[0].tls.min_version: expected 1.2 or 1.3"},
		{"redis", "pools:", "redis: {addresses: ['127.0.0.1:6379'], policy: open, tls: true, ca: CA, cert: CERT, key: KEY}\npools:", ""},
		{"redis' authorities", "pools:", "redis:\n  addresses: ['127.0.0.1:6379']\n  policy: open\n  tls: true\n  ca: /nowhere/ca.pem\npools:", "6: redis.ca: cannot be used"},
		{"redis without tls", "pools:", "redis: {addresses: ['127.0.0.1:6379'], policy: open, ca: CA}\npools:", "2: redis.tls: must be true"},
		{"network", pool, "    networks: [10.0.0.0/8, 10.0.0.300]\n    served", `4: pools[0].networks[1]: expected a network such as 10.0.0.0/8, or an address, got "10.0.0.300"`},
		{"replica in a network", pool, "    networks: [10.0.0.0/8, '::1']\n    served", ""},
		{"metadata service", "https://10.0.0.1:8000", "https://169.254.169.254", "5: pools[0].replicas[0]: 169.254.169.254 is not an address that replicas may have"},
		{"plain replica of a pool with tls", "https://10.0.0.2:8000]", "http://10.0.0.2:8000]\n    tls: {ca: CA}", "5: pools[0].replicas[1]: expected https://, since the pool has tls"},
		{"replica outside of the networks", pool, "    networks: [10.0.0.2]\n    served", "6: pools[0].replicas[0]: 10.0.0.1 is not an address that replicas may have; networks lists 10.0.0.2"},
	} {
		file := strings.Replace(secure, tc.old, files.Replace(tc.new), 1)
		if file == secure {
			t.Errorf("%s: the file does not change", tc.name)
		}
		got := report(t, file)
		if tc.want == "" && got != nil || tc.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tc.want)) {
			t.Errorf("%s: report = %q, want one line that begins with %q", tc.name, got, tc.want)
		}
	}
}

// TestReportTLS: the log has the field and the file that are at fault, and when
// that is over.
func TestReportTLS(t *testing.T) {
	s := &certs.Source{CA: "a.pem", Cert: "c.pem", Key: "k.pem"}
	half := errors.New("is half written")
	for _, tc := range []struct {
		section string
		err     error
		want    string
	}{
		{"tls", &certs.FileError{Field: "CA", Err: half}, `ERROR msg="a TLS file cannot be used; what it held before stays" field=tls.client_ca file=a.pem error="is half written"`},
		{"redis", &certs.FileError{Field: "Cert", Err: half}, `ERROR msg="a TLS file cannot be used; what it held before stays" field=redis.cert file=c.pem error="is half written"`},
		{"tls", &vllm.FileError{Field: "Key", Err: half}, `ERROR msg="a TLS file cannot be used; what it held before stays" field=tls.key file=k.pem error="vllm: TLS file Key: is half written"`},
		{"tls", nil, `INFO msg="the TLS files can be used again" section=tls`},
	} {
		var log bytes.Buffer
		reportTLS(tc.section, s, textLogger(&log))(tc.err)
		if _, got, _ := strings.Cut(strings.TrimSpace(log.String()), "level="); got != tc.want {
			t.Errorf("%s: log = %s\nwant %s", tc.section, got, tc.want)
		}
	}
}
