package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeCert makes a certificate and its key in dir.
func writeCert(t *testing.T, dir, name string) tlsConfig {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c := tlsConfig{Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+"-key.pem")}
	for path, block := range map[string]*pem.Block{c.Cert: {Type: "CERTIFICATE", Bytes: cert}, c.Key: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestCheckTLS(t *testing.T) {
	dir := t.TempDir()
	a, b := writeCert(t, dir, "a"), writeCert(t, dir, "b")
	for _, tc := range []struct {
		name string
		tls  tlsConfig
		path string // of the mistake; empty: none
	}{
		{"none", tlsConfig{}, ""},
		{"good", a, ""},
		{"no key", tlsConfig{Cert: a.Cert}, "tls.key"},
		{"no certificate", tlsConfig{Key: a.Key}, "tls.cert"},
		{"of two pairs", tlsConfig{Cert: a.Cert, Key: b.Key}, "tls.cert"},
		{"no such file", tlsConfig{Cert: "nowhere", Key: a.Key}, "tls.cert"},
	} {
		m := newMistakes("")
		checkTLS(tc.tls, m)
		got := ""
		if len(m.list) > 0 {
			got = m.list[0].path
		}
		if got != tc.path {
			t.Errorf("%s: mistake at %q, want %q", tc.name, got, tc.path)
		}
	}
}

// TestCertsRenew: a connection made after load sees the new certificate.
func TestCertsRenew(t *testing.T) {
	dir := t.TempDir()
	c := new(certs)
	for _, name := range []string{"a", "b"} {
		if err := c.load(writeCert(t, dir, name)); err != nil {
			t.Fatal(err)
		}
		got, err := c.config().GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(got.Certificate[0])
		if err != nil || leaf.Subject.CommonName != name {
			t.Errorf("certificate = %v, %v; want that of %s", leaf.Subject, err, name)
		}
	}
}
