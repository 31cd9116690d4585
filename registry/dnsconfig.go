package registry

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// FieldError says what is wrong with one field of a DNSConfig.
type FieldError struct {
	Field string // such as "Host"
	Want  string // what was expected
}

// Error names the field, in lower case, and what was expected.
func (e *FieldError) Error() string {
	return "registry: dns: " + strings.ToLower(e.Field) + ": " + e.Want
}

// validate joins a *FieldError for every mistake.
func (c *DNSConfig) validate() error {
	var errs []error
	check := func(ok bool, field, want string, args ...any) {
		if !ok {
			errs = append(errs, &FieldError{Field: field, Want: fmt.Sprintf(want, args...)})
		}
	}
	_, err := netip.ParseAddr(c.Host)
	if err == nil {
		check(false, "Host", "expected a name, got an address")
	} else {
		// What it says does not repeat the value, which may be a whole URL with
		// credentials.
		check(validHost(c.Host), "Host", "expected a name such as vllm.default.svc.cluster.local, without scheme, port or path")
	}
	check(c.Port >= 1 && c.Port <= 65535, "Port", "expected 1 to 65535, got %d", c.Port)
	check(c.Scheme == "" || c.Scheme == "http" || c.Scheme == "https", "Scheme", "expected http or https, got %q", c.Scheme)
	check(c.Interval >= 0, "Interval", "expected 0 or more, got %v", c.Interval)
	check(c.Timeout >= 0, "Timeout", "expected 0 or more, got %v", c.Timeout)
	check(c.Misses >= 0, "Misses", "expected 0 or more, got %d", c.Misses)
	return errors.Join(errs...)
}

func (c DNSConfig) withDefaults() DNSConfig {
	if c.Scheme == "" {
		c.Scheme = "http"
	}
	if c.Interval == 0 {
		c.Interval = 5 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	if c.Misses == 0 {
		c.Misses = 3
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	return c
}

// validHost reports whether s is a name that can be looked up, with or
// without a dot at its end.
func validHost(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, strange) {
			return false
		}
	}
	return true
}

// strange reports whether no name that is looked up has the character.
func strange(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}
