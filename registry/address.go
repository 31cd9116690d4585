package registry

import (
	"cmp"
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// parseAddress reads a replica's base address. It returns the address in the
// form in which it is kept, without a slash at the end, or says what is wrong
// with it. What it says does not repeat the address, which may hold the
// credentials complained of.
func parseAddress(raw string) (target *url.URL, wrong string) {
	if !strings.Contains(raw, ":/") && !strings.HasPrefix(raw, "http:") && !strings.HasPrefix(raw, "https:") {
		return nil, "expected scheme http or https, as in http://host:port, got none"
	}
	u, err := url.Parse(strings.TrimRight(raw, "/"))
	switch {
	case err != nil:
		return nil, "expected http://host:port, got " + unreadable(err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "expected scheme http or https, got " + cmp.Or(u.Scheme, "none")
	case u.User != nil:
		return nil, "expected no credentials in it"
	case u.Hostname() == "" || u.Opaque != "":
		return nil, "expected a host"
	case strings.HasSuffix(u.Host, ":") || !validPort(u.Port()):
		return nil, "expected a port from 1 to 65535"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, "expected no query or fragment"
	case underV1(u.Path):
		return nil, "expected the base address without /v1, as in http://host:port"
	}
	u.Host = strings.ToLower(u.Host)
	return u, ""
}

// unreadable says in its own words why an address does not parse.
func unreadable(err error) string {
	var host url.InvalidHostError
	var escape url.EscapeError
	var outer *url.Error
	switch {
	case errors.As(err, &host):
		return "a character that no host may have"
	case errors.As(err, &escape):
		return "a % without two hexadecimal digits after it"
	case errors.As(err, &outer) && strings.HasPrefix(outer.Err.Error(), "invalid port"):
		return "a port that is not a number"
	case errors.As(err, &outer) && strings.HasSuffix(outer.Err.Error(), "invalid control character in URL"):
		return "a control character, such as a line break"
	}
	return "something that is not an address"
}

func validPort(s string) bool {
	n, err := strconv.Atoi(s)
	return s == "" || err == nil && n >= 1 && n <= 65535
}

// underV1 reports whether the path is that of the engine's API, as clients of
// it are given, and not what comes before it.
func underV1(path string) bool {
	for _, end := range []string{"/v1", "/v1/models", "/v1/completions", "/v1/chat/completions"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// sameAddress reports whether two addresses lead to one engine.
func sameAddress(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && sameHost(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b) && a.EscapedPath() == b.EscapedPath()
}

// sameHost knows an address in each of its forms. A name is what it is.
func sameHost(a, b string) bool {
	if a == b {
		return true
	}
	x, err := netip.ParseAddr(a)
	if err != nil {
		return false
	}
	y, err := netip.ParseAddr(b)
	return err == nil && x.Unmap() == y.Unmap()
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
