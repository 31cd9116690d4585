package main

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// shortestScrape bounds how often replicas are asked for their metrics.
const shortestScrape = 50 * time.Millisecond

// checkAddresses finds addresses that no port can be opened on.
func checkAddresses(c *config, m *mistakes) {
	listen := cmp.Or(c.Listen, defaultListen)
	good := checkAddress("listen", listen, defaultListen, m)
	if c.Admin != "" && checkAddress("admin", c.Admin, "127.0.0.1:9090", m) && good && collide(listen, c.Admin) {
		m.add("admin", "takes the same port as listen, which is %s", listen)
	}
}

func checkAddress(path, addr, example string, m *mistakes) bool {
	_, port, err := net.SplitHostPort(addr)
	if err == nil && port != "" {
		if _, err = net.LookupPort("tcp", port); err == nil {
			return true
		}
		m.add(path, "expected a port of 1 to 65535, got %q", port)
		return false
	}
	m.add(path, "expected host:port, such as %s, got %q", example, addr)
	return false
}

// collide reports whether the second of two good addresses cannot be opened
// once the first one is.
func collide(a, b string) bool {
	hostA, portA := split(a)
	hostB, portB := split(b)
	return portA == portB && portA != 0 && (hostA == hostB || hostA == "" || hostB == "")
}

// split returns an address' port and its host, which is empty for all hosts.
func split(addr string) (host string, port int) {
	host, name, _ := net.SplitHostPort(addr)
	port, _ = net.LookupPort("tcp", name)
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	return host, port
}

// checkBounds finds numbers that are out of range; the library looks after
// those that it takes.
func checkBounds(c *config, m *mistakes) {
	if c.Grace < 0 {
		m.add("grace", "must not be negative, got %v", c.Grace)
	}
	if c.Scrape < shortestScrape {
		m.add("scrape", "expected at least %v, got %v", shortestScrape, c.Scrape)
	}
	if l := &c.Limits; 0 <= l.Bodies && l.Bodies < l.Body {
		m.add("limits.bodies", "expected at least limits.body, which is %d; is %d, so that no body of that size would ever fit", l.Body, l.Bodies)
		l.Bodies = l.Body // said once
	}
}

// checkUsage finds a usage file that cannot be opened.
func checkUsage(c *usageConfig, m *mistakes) {
	if c.MaxSize < 0 {
		m.add("usage.max_size", "must not be negative, got %d", c.MaxSize)
	}
	if c.File == "" {
		return
	}
	dir := filepath.Dir(c.File)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		m.add("usage.file", "there is no directory %q", dir)
		return
	}
	info, err := os.Stat(c.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		m.add("usage.file", "%v", err)
	case info.IsDir():
		m.add("usage.file", "%q is a directory; expected a file", c.File)
	case info.Mode().IsRegular():
		f, err := os.OpenFile(c.File, os.O_RDWR|os.O_APPEND, 0)
		if err != nil {
			m.add("usage.file", "%v", err)
			return
		}
		f.Close()
	}
}
