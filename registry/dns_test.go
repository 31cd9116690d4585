package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// names is a resolver whose answer can be set.
type names struct {
	mu    sync.Mutex
	addrs []string
	err   error
	hang  bool
}

func (n *names) set(err error, hang bool, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs, n.err, n.hang = addrs, err, hang
}

func (n *names) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if !strings.HasPrefix(network, "ip") || host != "vllm.default.svc" {
		return nil, errors.New("unexpected question " + network + " " + host)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var out []netip.Addr
	for _, s := range n.addrs {
		if a := netip.MustParseAddr(s); network == "ip" || (network == "ip4") == a.Unmap().Is4() {
			out = append(out, a)
		}
	}
	return out, n.err
}

func TestDNSFollowsTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 0, registry.PoolConfig{})
		if _, err := p.Add(registry.ReplicaConfig{Name: "by hand", URL: "http://10.0.0.7:8000"}); err != nil {
			t.Fatal(err)
		}
		res := &names{}
		var errs atomic.Int64
		d, err := registry.NewDNS(p, registry.DNSConfig{
			Host: "vllm.default.svc", Port: 8000, Zone: "a", Resolver: res,
			Allow:   []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
			OnError: func(error) { errs.Add(1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		check := func(when string, wantErrs int64, want ...string) {
			t.Helper()
			var got []string
			for _, r := range p.Replicas()[1:] { // the first was added by hand
				got = append(got, r.URL())
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || errs.Load() != wantErrs {
				t.Errorf("%s: members %v and %d errors, want %v and %d", when, got, errs.Load(), want, wantErrs)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		res.addrs = []string{"10.0.0.1", "10.0.0.1", "10.0.0.7", "::ffff:10.0.0.2", "fd00::1", "169.254.169.254", "127.0.0.1"}
		go func() { ended <- d.Run(ctx) }()
		synctest.Wait()
		all := []string{"http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://[fd00::1]:8000"}
		check("at once", 0, all...)
		kept := p.Replicas()[2]

		next := func(err error, hang bool, addrs ...string) {
			res.set(err, hang, addrs...)
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		next(nil, false, "10.0.0.2")
		next(nil, false, "10.0.0.2")
		check("two answers without them", 0, all...)
		next(nil, false, "10.0.0.1", "10.0.0.2")
		next(nil, false, "10.0.0.2")
		check("an address that came back counts anew", 0, all[0], all[1])
		next(errors.New("servfail"), false)
		next(nil, false)
		next(nil, true)
		time.Sleep(3 * time.Second) // the lookup times out after two
		synctest.Wait()
		res.set(nil, false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		check("failures change nothing", 4, all[0], all[1])
		next(nil, false, "10.0.0.2", "10.0.0.9")
		next(nil, false, "10.0.0.2", "10.0.0.9")
		check("gone for good", 4, all[1], "http://10.0.0.9:8000")
		if p.Replicas()[0].Name() != "by hand" {
			t.Error("the replica added by hand was removed")
		}
		if !slices.Contains(p.Replicas(), kept) || kept.Zone() != "a" {
			t.Error("the replica that stayed is another")
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Run = %v, want context.Canceled", err)
		}
	})
}

func TestDNSConfigIsChecked(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  registry.DNSConfig
		want string // the fields that are wrong
	}{
		{"least", registry.DNSConfig{Host: "vllm.default.svc", Port: 8000}, ""},
		{"dot at the end", registry.DNSConfig{Host: "vllm.default.svc.", Port: 1}, ""},
		{"one label", registry.DNSConfig{Host: "localhost", Port: 65535}, ""},
		{"nothing", registry.DNSConfig{}, "Host Port"},
		{"port", registry.DNSConfig{Host: "h", Port: 65536}, "Port"},
		{"http", registry.DNSConfig{Host: "h", Port: 1, Scheme: "http"}, ""},
		{"https", registry.DNSConfig{Host: "h", Port: 1, Scheme: "https"}, ""},
		{"scheme", registry.DNSConfig{Host: "h", Port: 1, Scheme: "HTTPS"}, "Scheme"},
		{"a URL", registry.DNSConfig{Host: "http://user:secret@h", Port: 1}, "Host"},
		{"with port", registry.DNSConfig{Host: "h:8000", Port: 1}, "Host"},
		{"address", registry.DNSConfig{Host: "10.0.0.1", Port: 1}, "Host"},
		{"address, version 6", registry.DNSConfig{Host: "::1", Port: 1}, "Host"},
		{"empty label", registry.DNSConfig{Host: "a..b", Port: 1}, "Host"},
		{"long label", registry.DNSConfig{Host: strings.Repeat("a", 64), Port: 1}, "Host"},
		{"long", registry.DNSConfig{Host: strings.Repeat("a.", 127), Port: 1}, ""},
		{"too long", registry.DNSConfig{Host: strings.Repeat("a.", 128), Port: 1}, "Host"},
		{"negative", registry.DNSConfig{Host: "h", Port: 1, Interval: -1, Timeout: -1, Misses: -1}, "Interval Timeout Misses"},
	} {
		_, err := registry.NewDNS(newPool(t, 0, registry.PoolConfig{}), tt.cfg)
		var got []string
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				var f *registry.FieldError
				if !errors.As(e, &f) || !strings.HasPrefix(e.Error(), "registry: dns: "+strings.ToLower(f.Field)+": ") {
					t.Fatalf("%s: %v, want a *FieldError that names its field", tt.name, e)
				}
				got = append(got, f.Field)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: NewDNS = %v, want an error about %q", tt.name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error repeats a password: %v", tt.name, err)
		}
	}
}

// TestDNSTells: an outage is told when it begins and when it ends, each
// failure besides, and who came and went.
func TestDNSTells(t *testing.T) {
	p := newPool(t, 0, registry.PoolConfig{})
	var told []string
	res := &names{}
	d, err := registry.NewDNS(p, registry.DNSConfig{
		Host: "vllm.default.svc", Port: 8000, Misses: 1, Resolver: res,
		Allow:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		OnError:  func(err error) { told = append(told, "failed") },
		OnOutage: func(err error) { told = append(told, fmt.Sprint("outage ", err)) },
		OnChange: func(joined, left []*registry.Replica) {
			told = append(told, fmt.Sprintf("%d joined, %d left", len(joined), len(left)))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	noHost := &net.DNSError{Err: "no such host", Name: "vllm.default.svc", Server: "10.0.0.53:53"}
	for _, tt := range []struct {
		err   error
		addrs string
		want  string
	}{
		{noHost, "", "failed, outage registry: dns: vllm.default.svc: no such host, asked 10.0.0.53:53"},
		{nil, "", "failed"},
		{nil, "192.0.2.1 fe80::1%eth0", "failed"},
		{nil, "10.0.0.1 10.0.0.2 192.0.2.1", "outage <nil>, 2 joined, 0 left"},
		{nil, "10.0.0.2 10.0.0.1", ""},
		{nil, "10.0.0.2 10.0.0.3", "1 joined, 1 left"},
		{nil, "192.0.2.1", "failed, outage registry: dns: vllm.default.svc: has no address that is allowed, only such as 192.0.2.1"},
		{nil, "10.0.0.2 10.0.0.3", "outage <nil>"},
		{nil, "", "failed, outage registry: dns: vllm.default.svc: has no address"},
	} {
		told = nil
		res.set(tt.err, false, strings.Fields(tt.addrs)...)
		err := d.Look(t.Context())
		if got := strings.Join(told, ", "); got != tt.want || (err != nil) != strings.Contains(tt.want, "failed") {
			t.Errorf("Look finds %q, %v: told %q, and the error %v; want %q", tt.addrs, tt.err, got, err, tt.want)
		}
	}
	told = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res.set(nil, true)
	if err := d.Look(ctx); err == nil || told != nil {
		t.Errorf("Look under a context that ended = %v, told %q; want an error that is told to nobody", err, told)
	}
	if len(p.Replicas()) != 2 || p.Replicas()[0].Name() != "10.0.0.2:8000" {
		t.Errorf("%d members, the first %q", len(p.Replicas()), p.Replicas()[0].Name())
	}
}
