package main

import (
	"strings"
	"testing"

	"github.com/expediterhq/expediter/internal/certs/certtest"
)

// TestDNSMistakes: what is wrong with a pool's name is told with its line and
// field, without a lookup: no name of this test exists.
func TestDNSMistakes(t *testing.T) {
	ca := certtest.Write(t, t.TempDir(), "ca.pem", certtest.New(t, "a").PEM)
	const replicas = "replicas: [http://10.0.0.1:8000, http://10.0.0.2:8000]"
	for _, tt := range []struct{ name, pool, want string }{
		{"least", "dns: {host: vllm.invalid, port: 8000}", ""},
		{"all", "dns: {host: vllm.invalid., port: 8000, interval: 5s, timeout: 1s, misses: 10, zone: a, scheme: http}", ""},
		{"both", "dns: {host: vllm.invalid, port: 8000}\n    " + replicas, ""},
		{"no replicas", "dns: {host: vllm.invalid, port: 8000}\n    replicas: []", ""},
		{"default interval", "dns: {host: vllm.invalid, port: 8000, interval: 0s}", ""},
		{"neither", "max_tokens: 5", "3: pools[0].replicas: expected at least one replica, such as http://10.0.0.1:8000, or dns"},
		{"neither, of no length", "replicas: []", "5: pools[0].replicas: expected at least one replica"},
		{"empty", "dns: {}", "5: pools[0].dns: says nothing; expected host and port"},
		{"nothing", "dns:", "5: pools[0].dns: says nothing"},
		{"one word", "dns: vllm.invalid:8000", "5: pools[0].dns: expected a map, found a value"},
		{"host", "dns:\n      port: 8000", "6: pools[0].dns.host: expected a name such as vllm.default.svc.cluster.local, without scheme, port or path"},
		{"host of another kind", "dns: {host: [a], port: 8000}", "5: pools[0].dns.host: expected a value, found a list"},
		{"a URL", "dns:\n      host: http://vllm.invalid\n      port: 8000", "6: pools[0].dns.host: expected a name"},
		{"host with port", "dns: {host: 'vllm.invalid:8000', port: 8000}", "5: pools[0].dns.host: expected a name"},
		{"address", "dns: {host: 10.0.0.1, port: 8000}", "5: pools[0].dns.host: expected a name, got an address"},
		{"no port", "dns: {host: vllm.invalid}", "5: pools[0].dns.port: expected 1 to 65535, got 0"},
		{"port", "dns:\n      host: vllm.invalid\n      port: 65536", "7: pools[0].dns.port: expected 1 to 65535, got 65536"},
		{"port by name", "dns: {host: vllm.invalid, port: http}", `5: pools[0].dns.port: expected a whole number, got "http"`},
		{"interval", "dns: {host: vllm.invalid, port: 8000, interval: -1s}", "5: pools[0].dns.interval: expected at least 100ms, or 0 for the default, got -1s"},
		{"interval without a unit", "dns: {host: vllm.invalid, port: 8000, interval: 5}", "5: pools[0].dns.interval: expected a duration"},
		{"too long", "dns: {host: vllm.invalid, port: 8000, interval: 9999999h}", `5: pools[0].dns.interval: expected a duration below 292 years, got "9999999h"`},
		{"too long to be true", "dns: {host: vllm.invalid, port: 8000, timeout: -1h99999999999999999999.5s}", `5: pools[0].dns.timeout: expected a duration below 292 years, got "-1h`},
		{"too often", "dns: {host: vllm.invalid, port: 8000, interval: 99ms}", "5: pools[0].dns.interval: expected at least 100ms, or 0 for the default, got 99ms"},
		{"timeout", "dns: {host: vllm.invalid, port: 8000, timeout: -1s}", "5: pools[0].dns.timeout: expected 0 or more, got -1s"},
		{"misses", "dns: {host: vllm.invalid, port: 8000, misses: -1}", "5: pools[0].dns.misses: expected 0 or more, got -1"},
		{"zone", "dns: {host: vllm.invalid, port: 8000, zone: [a]}", "5: pools[0].dns.zone: expected a value, found a list"},
		{"scheme", "dns: {host: vllm.invalid, port: 8000, scheme: tcp}", `5: pools[0].dns.scheme: expected http or https, got "tcp"`},
		{"field", "dns: {name: vllm.invalid, host: vllm.invalid, port: 8000}", "5: pools[0].dns.name: unknown field; expected one of host, port, scheme, interval, timeout, misses, zone"},
		{"tls", "dns: {host: vllm.invalid, port: 8000}\n    tls: {ca: CA}", ""},
		{"tls and http", "dns: {host: vllm.invalid, port: 8000, scheme: http}\n    tls: {ca: CA}", "5: pools[0].dns.scheme: expected https, since the pool has tls"},
		{"tls and listed", "dns: {host: vllm.invalid, port: 8000}\n    replicas: [https://a.invalid]\n    tls: {ca: CA}",
			"7: pools[0].tls.server_name: must be set, since replicas are both listed and found"},
		{"tls and listed, named", "dns: {host: vllm.invalid, port: 8000}\n    replicas: [https://a.invalid]\n    tls: {ca: CA, server_name: b.invalid}", ""},
		{"https and listed", "dns: {host: vllm.invalid, port: 8000, scheme: https}\n    replicas: [https://a.invalid]", "3: pools[0].tls.server_name: must be set"},
		{"https and listed http", "dns: {host: vllm.invalid, port: 8000, scheme: https}\n    " + replicas, ""},
		{"networks", "dns: {host: vllm.invalid, port: 8000}\n    networks: [10.0.0.0/33]", "6: pools[0].networks[0]: expected a network"},
	} {
		file := strings.Replace(sound, replicas, strings.ReplaceAll(tt.pool, "CA", ca), 1)
		got := strings.Join(report(t, file), "\n")
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") || strings.Contains(got, "\n") {
			t.Errorf("%s: report = %q, want one line that begins with %q", tt.name, got, tt.want)
		}
	}
	file := strings.Replace(sound, replicas, "dns: {host: vllm.invalid, port: 8000, interval: 0s}", 1)
	const note = "f:5: note: pools[0].dns.interval: is 0, which means 5s\n"
	if out, fault := checked(t, file); out != note+good || fault != "" {
		t.Errorf("-check prints\n%s%s", out, fault)
	}
}

// TestNameOfFound: replicas that are found show a certificate of the name that
// they were found under, unless the file says otherwise.
func TestNameOfFound(t *testing.T) {
	dns := dnsConfig{Host: "vllm.invalid.", Port: 8000}
	secured := dns
	secured.Scheme = "https"
	for _, tt := range []struct {
		name, want string
		pool       poolConfig
	}{
		{"http", "", poolConfig{DNS: dns}},
		{"https", "vllm.invalid", poolConfig{DNS: secured}},
		{"tls", "vllm.invalid", poolConfig{DNS: dns, TLS: upstreamTLS{CA: "ca.pem"}}},
		{"a name of its own", "b.invalid", poolConfig{DNS: dns, TLS: upstreamTLS{ServerName: "b.invalid"}}},
		{"listed", "", poolConfig{TLS: upstreamTLS{CA: "ca.pem"}}},
	} {
		if got := tt.pool.upstream().tls.ServerName; got != tt.want {
			t.Errorf("%s: server name %q, want %q", tt.name, got, tt.want)
		}
	}
}
