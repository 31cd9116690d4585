package main

import (
	"slices"
	"testing"
	"time"
)

func TestWaiting(t *testing.T) {
	began := func() *config {
		return &config{
			Listen: ":8080", Grace: time.Second, TLS: tlsConfig{Cert: "a.pem", Key: "a-key.pem"},
			Redis: redisConfig{Addresses: []string{"a:1", "b:1"}}, PepperEnv: "PEPPER",
		}
	}
	for _, tt := range []struct {
		name   string
		change func(c *config)
		want   []string
	}{
		{"nothing", func(*config) {}, nil},
		{"what a reload takes up", func(c *config) { c.TLS.Cert, c.Scrape, c.Limits.Body = "b.pem", time.Second, 1 }, nil},
		{"addresses", func(c *config) { c.Listen, c.Admin = ":80", ":81" }, []string{"listen", "admin"}},
		{"no TLS any more", func(c *config) { c.TLS = tlsConfig{} }, []string{"tls"}},
		{"another version", func(c *config) { c.TLS.MinVersion = "1.3" }, []string{"tls.min_version"}},
		{"grace", func(c *config) { c.Grace = 0 }, []string{"grace"}},
		{"a node of Redis", func(c *config) { c.Redis.Addresses = []string{"a:1"} }, []string{"redis"}},
		{"what New sets", func(c *config) { c.Zone, c.Limits.Bodies, c.Retry.Ratio, c.Retry.Burst = "z", 1, 1, 1 },
			[]string{"zone", "limits.bodies", "retry.ratio", "retry.burst"}},
		{"usage and pepper", func(c *config) { c.Usage.File, c.PepperEnv = "u", "" }, []string{"usage", "pepper_env"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := began()
			tt.change(now)
			if got := waiting(began(), now); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
