package main

import (
	"net/netip"
	"slices"
	"strings"
)

// parseNetworks reads networks separated by spaces. They are good.
func parseNetworks(list string) []netip.Prefix {
	var out []netip.Prefix
	for s := range strings.FieldsSeq(list) {
		if p, err := parseNetwork(s); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// parseNetwork reads a network such as 10.0.0.0/8, or one address.
func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// never are the networks in which no replica is ever looked for, but at an
// address that is listed by itself.
var never = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"), // link-local
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8"), // multicast
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"), // of no host
}

// translated are the IPv6 forms of IPv4 addresses, which are compared in the
// form of the latter.
var translated = []netip.Prefix{netip.MustParsePrefix("::ffff:0:0/96"), netip.MustParsePrefix("64:ff9b::/96")}

// useless says what is expected instead of a network that no replica's address
// can be in; empty if one can.
func useless(p netip.Prefix) string {
	inside := func(outer netip.Prefix) bool { return outer.Bits() <= p.Bits() && outer.Contains(p.Addr()) }
	switch {
	case slices.ContainsFunc(translated, inside):
		return "expected IPv4 addresses to be written as in 10.0.0.0/8"
	case !p.IsSingleIP() && slices.ContainsFunc(never, inside):
		return "expected a network that replicas may be in, not one of link-local, multicast or reserved addresses"
	}
	return ""
}
