// Package redistest starts real Redis servers for tests: one server, a cluster
// of masters, or a master and replica watched by sentinels, each on free ports
// of the loopback interface and killed when the test ends. Proxy stands between
// a client and a server and injects faults.
//
// Where no redis-server is installed the test is skipped, or fails if the
// environment variable CI is "true".
package redistest
