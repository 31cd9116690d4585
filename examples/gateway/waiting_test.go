package main

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/expediterhq/expediter/router"
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
		{"what a reload takes up", func(c *config) { c.TLS.Cert, c.Scrape, c.Limits.Body, c.Zone = "b.pem", time.Second, 1, "z" }, nil},
		{"addresses", func(c *config) { c.Listen, c.Admin = ":80", ":81" }, []string{"listen", "admin"}},
		{"no TLS any more", func(c *config) { c.TLS = tlsConfig{} }, []string{"tls"}},
		{"another version", func(c *config) { c.TLS.MinVersion = "1.3" }, []string{"tls.min_version"}},
		{"grace", func(c *config) { c.Grace = 0 }, []string{"grace"}},
		{"a node of Redis", func(c *config) { c.Redis.Addresses = []string{"a:1"} }, []string{"redis"}},
		{"what New sets", func(c *config) { c.Limits.Bodies, c.Retry.Ratio, c.Retry.Burst = 1, 1, 1 },
			[]string{"limits.bodies", "retry.ratio", "retry.burst"}},
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

// TestScorers: every load of a configuration makes the rule anew, so that a
// reload also takes a zone away.
func TestScorers(t *testing.T) {
	for _, zone := range []string{"", "eu-1"} {
		want := router.Default()
		if zone != "" {
			want = append(want, router.Zone{Local: zone})
		}
		if got := scorers(&config{Zone: zone}); !reflect.DeepEqual(got, want) {
			t.Errorf("zone %q: %#v, want %#v", zone, got, want)
		}
		if build(&config{Zone: zone}, new(mistakes)).router == nil {
			t.Errorf("zone %q: the rule of before would stay", zone)
		}
	}
}
