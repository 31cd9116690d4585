package h1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
)

// Headers that this package writes itself.
var framing = map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Trailer": true}

// appendHead appends the request's head. What it refuses could be read as
// something else by the other side.
func appendHead(b []byte, r *http.Request) ([]byte, error) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	target := r.URL.RequestURI()
	if !token(r.Method) || !printable(target) || !printable(host) || host == "" {
		return nil, errors.New("h1: method, target and host must be plain words")
	}
	if r.ContentLength < 0 || r.ContentLength == 0 && r.Body != nil && r.Body != http.NoBody {
		return nil, errors.New("h1: a body must have a known length")
	}
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\n"...)
	for name, values := range r.Header {
		if !token(name) || framing[http.CanonicalHeaderKey(name)] {
			return nil, fmt.Errorf("h1: header %q cannot be sent", name)
		}
		for _, v := range values {
			if !plainValue(v) {
				return nil, fmt.Errorf("h1: the value of header %q has control characters", name)
			}
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, v...)
			b = append(b, "\r\n"...)
		}
	}
	if r.ContentLength > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, r.ContentLength, 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

// token reports whether s is a method or a header's name.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// printable reports whether s has neither spaces nor control characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// plainValue reports whether s is a header's value: no control characters but
// the tab.
func plainValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// traceConn tells a trace which connection the request goes out on.
func traceConn(ctx context.Context, c *conn) {
	if t := httptrace.ContextClientTrace(ctx); t != nil && t.GotConn != nil {
		t.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: c.reused})
	}
}
