package registry_test

import (
	"context"
	"errors"
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
	if network != "ip" || host != "vllm.default.svc" {
		return nil, errors.New("unexpected question " + network + " " + host)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var out []netip.Addr
	for _, a := range n.addrs {
		out = append(out, netip.MustParseAddr(a))
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
	_, err := registry.NewDNS(newPool(t, 0, registry.PoolConfig{}), registry.DNSConfig{Port: 70_000})
	if err == nil || !strings.Contains(err.Error(), "host:") || !strings.Contains(err.Error(), "port:") {
		t.Errorf("NewDNS = %v, want an error that names host and port", err)
	}
}
