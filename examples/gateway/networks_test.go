package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/vllm"
)

// TestUselessNetworks: a network is told of if, and only if, the dialer allows
// none of its addresses.
func TestUselessNetworks(t *testing.T) {
	const (
		translated = "expected IPv4 addresses to be written as in 10.0.0.0/8"
		refused    = "expected a network that replicas may be in, not one of link-local, multicast or reserved addresses"
	)
	for _, tt := range []struct {
		network string
		of      string // one of its addresses
		want    string
	}{
		{"10.0.0.0/8", "10.0.0.1", ""},
		{"0.0.0.0/0", "10.0.0.1", ""},
		{"::/0", "fd00::1", ""},
		{"fd00::/8", "fd00::1", ""},
		{"fe80::/9", "fec0::1", ""},
		{"168.0.0.0/5", "169.0.0.1", ""},
		{"::1", "::1", ""},
		{"169.254.0.7", "169.254.0.7", ""},
		{"fe80::1", "fe80::1", ""},
		{"fe80::1%eth0", "fe80::1", ""}, // of any zone
		{"::ffff:10.0.0.0/104", "10.0.0.1", translated},
		{"::ffff:10.0.0.1", "10.0.0.1", translated},
		{"64:ff9b::a00:0/104", "64:ff9b::a00:1", translated},
		{"169.254.0.0/16", "169.254.0.7", refused},
		{"169.254.3.0/24", "169.254.3.7", refused},
		{"fe80::/64", "fe80::1", refused},
		{"239.0.0.0/8", "239.0.0.1", refused},
		{"ff02::/16", "ff02::1", refused},
		{"0.0.0.0/8", "0.0.0.1", refused},
		{"255.255.255.0/24", "255.255.255.1", refused},
	} {
		p, err := parseNetwork(tt.network)
		if err != nil {
			t.Fatal(err)
		}
		if got := useless(p); got != tt.want {
			t.Errorf("useless(%s) = %q, want %q", tt.network, got, tt.want)
		}
		d := vllm.Dialer{Allow: []netip.Prefix{p}}
		if got := d.Allowed(netip.MustParseAddr(tt.of)); got != (tt.want == "") {
			t.Errorf("%s in %s is allowed: %t, want %t", tt.of, tt.network, got, tt.want == "")
		}
	}
}

// TestUselessNetworkInAFile is told with its line and field.
func TestUselessNetworkInAFile(t *testing.T) {
	file := strings.Replace(sound, "    served", "    networks: [10.0.0.0/8, '::ffff:10.0.0.0/104']\n    served", 1)
	const want = `4: pools[0].networks[1]: expected IPv4 addresses to be written as in 10.0.0.0/8, got "::ffff:10.0.0.0/104"`
	if got := strings.Join(report(t, file), "\n"); got != want {
		t.Errorf("report = %q, want %q", got, want)
	}
}
