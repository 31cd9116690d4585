package vllm_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/vllm"
)

func TestP6AllowedAddresses(t *testing.T) {
	private := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	odd := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("169.254.7.7/32")}
	for _, c := range []struct {
		addr                  string
		open, private, except bool // without a list; with the private one; with the odd one
	}{
		{"10.1.2.3", true, true, true},
		{"::ffff:10.1.2.3", true, true, true},
		{"64:ff9b::a01:203", true, true, true},
		{"192.168.1.1", true, false, true},
		{"127.0.0.1", true, false, true},
		{"::1", true, false, false},
		{"8.8.8.8", true, false, true},
		{"fd12::1", true, true, false},
		{"169.254.169.254", false, false, false},
		{"::ffff:169.254.169.254", false, false, false},
		{"::ffff:a9fe:a9fe", false, false, false},
		{"64:ff9b::a9fe:a9fe", false, false, false},
		{"169.254.7.7", false, false, true},
		{"fe80::1", false, false, false},
		{"fe80::1%eth0", false, false, false},
		{"fd00:ec2::254", false, false, false},
		{"100.100.100.200", false, false, false},
		{"168.63.129.16", false, false, false},
		{"0.0.0.0", false, false, false},
		{"0.1.2.3", false, false, false},
		{"::", false, false, false},
		{"224.0.0.1", false, false, false},
		{"255.255.255.255", false, false, false},
		{"ff02::1", false, false, false},
	} {
		a := netip.MustParseAddr(c.addr)
		for _, l := range []struct {
			allow []netip.Prefix
			want  bool
		}{{nil, c.open}, {private, c.private}, {odd, c.except}} {
			d := vllm.Dialer{Allow: l.allow}
			if got := d.Allowed(a); got != l.want {
				t.Errorf("Allowed(%s) with %v = %v, want %v", c.addr, l.allow, got, l.want)
			}
		}
	}
	if (&vllm.Dialer{}).Allowed(netip.Addr{}) {
		t.Error("the zero address is allowed")
	}
}

// TestP6CheckedAtTheDial: names and odd spellings are checked as the
// addresses they turn out to be.
func TestP6CheckedAtTheDial(t *testing.T) {
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	refuse := vllm.NewTransport(vllm.TransportConfig{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	defer refuse.CloseIdleConnections()
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		_, err := vllm.NewClient(refuse, "").Get("http://" + host + ":" + port + "/")
		if !errors.Is(err, vllm.ErrAddress) {
			t.Errorf("%s: %v, want ErrAddress", host, err)
		}
	}
	for _, url := range []string{"http://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "http://0.0.0.0:" + port} {
		tr := vllm.NewTransport(vllm.TransportConfig{DialTimeout: time.Second})
		if _, err := vllm.NewClient(tr, "").Get(url); !errors.Is(err, vllm.ErrAddress) {
			t.Errorf("%s: %v, want ErrAddress", url, err)
		}
	}
	for _, url := range []string{"file:///etc/passwd", "gopher://127.0.0.1:" + port + "/", "unix:///tmp/s"} {
		if _, err := vllm.NewClient(nil, "").Get(url); err == nil {
			t.Errorf("%s: no error", url)
		}
	}
	if _, err := (&vllm.Dialer{}).DialContext(context.Background(), "udp", "127.0.0.1:"+port); !errors.Is(err, vllm.ErrAddress) {
		t.Errorf("udp: %v, want ErrAddress", err)
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
	allow := vllm.NewTransport(vllm.TransportConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	defer allow.CloseIdleConnections()
	resp, err := vllm.NewClient(allow, "").Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

func TestP7RedirectsAreNotFollowed(t *testing.T) {
	var followed atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer target.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewServer(http.RedirectHandler(target.URL, status))
		client := vllm.NewClient(nil, "key")
		ctx := t.Context()
		var e *vllm.StatusError
		if err := vllm.Health(ctx, client, srv.URL); !errors.As(err, &e) || e.Status != status {
			t.Errorf("%d: Health = %v", status, err)
		}
		if _, err := vllm.Models(ctx, client, srv.URL); !errors.As(err, &e) || e.Status != status {
			t.Errorf("%d: Models = %v", status, err)
		}
		resp, err := client.Post(srv.URL+"/v1/completions", "application/json", strings.NewReader("{}"))
		if err != nil || resp.StatusCode != status {
			t.Errorf("%d: Post = %v, %v", status, resp, err)
		} else {
			_ = resp.Body.Close()
		}
		client.CloseIdleConnections()
		srv.Close()
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestTransport(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "not gzip at all")
	}))
	defer srv.Close()
	tr := vllm.NewTransport(vllm.TransportConfig{Idle: 7})
	defer tr.CloseIdleConnections()
	resp, err := vllm.NewClient(tr, "").Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || string(body) != "not gzip at all" || got.Get("Accept-Encoding") != "" {
		t.Errorf("body %q, %v, Accept-Encoding %q: want bytes as they are and no header", body, err, got.Get("Accept-Encoding"))
	}
}

// TestTransportOverHTTP2: what the configuration says where the transport is
// the standard library's.
func TestTransportOverHTTP2(t *testing.T) {
	tr := vllm.NewTransport(vllm.TransportConfig{HTTP2: true, Idle: 7}).(*http.Transport)
	if tr.Proxy != nil || tr.IdleConnTimeout >= 5*time.Second || tr.MaxIdleConnsPerHost != 7 || tr.ResponseHeaderTimeout != 10*time.Minute ||
		tr.TLSClientConfig.MinVersion < tls.VersionTLS12 || !tr.DisableCompression {
		t.Errorf("transport = %+v", tr)
	}
	if tr := vllm.NewTransport(vllm.TransportConfig{HTTP2: true, HeaderTimeout: -1}).(*http.Transport); tr.ResponseHeaderTimeout != 0 {
		t.Errorf("header time-out %v, want none", tr.ResponseHeaderTimeout)
	}
}

// TestErrorsNameThePackageOnce: whoever reports it.
func TestErrorsNameThePackageOnce(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := ln.Addr().String()
	_ = ln.Close()
	tr := vllm.NewTransport(vllm.TransportConfig{})
	for _, tt := range []struct{ addr, want string }{
		{gone, "dial tcp " + gone + ": connect: connection refused"},
		{"169.254.169.254:80", "dial tcp 169.254.169.254:80: address is not allowed for a replica"},
	} {
		if err := vllm.Health(t.Context(), vllm.NewClient(tr, ""), "http://"+tt.addr); err == nil || err.Error() != "vllm: /health: "+tt.want {
			t.Errorf("Health = %v, want vllm: /health: %s", err, tt.want)
		}
		if _, err := (&vllm.Dialer{}).DialContext(t.Context(), "tcp", tt.addr); err == nil || err.Error() != "vllm: "+tt.want {
			t.Errorf("DialContext = %v, want vllm: %s", err, tt.want)
		}
	}
}
