package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Resolver looks up the addresses of a host; network is "ip", "ip4" or
// "ip6". *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DNSConfig says which name holds the addresses of a pool's replicas, such as
// a headless service in Kubernetes.
type DNSConfig struct {
	Host     string         // must be set
	Port     int            // must be set
	Zone     string         // given to every replica
	Interval time.Duration  // between lookups. If zero, 5 s
	Timeout  time.Duration  // of one lookup. If zero, 2 s
	Misses   int            // answers in a row without an address that remove it. If zero, 3
	Allow    []netip.Prefix // addresses outside are ignored. If nil, all are allowed
	Resolver Resolver       // If nil, net.DefaultResolver
	OnError  func(error)    // called for every failed lookup, from Run. If nil, failures are not told
}

// DNS keeps a pool's members like the addresses of a name. A lookup that
// fails or finds nothing changes nothing: a resolver that is down must not
// empty a pool that works. Members that were added otherwise are left alone.
type DNS struct {
	pool    *Pool
	cfg     DNSConfig
	members map[netip.Addr]*found
}

type found struct {
	replica *Replica
	misses  int
}

// NewDNS returns a DNS that fills pool. The error names every mistake in cfg.
func NewDNS(pool *Pool, cfg DNSConfig) (*DNS, error) {
	var errs []error
	if cfg.Host == "" {
		errs = append(errs, errors.New("registry: dns: host: expected a name"))
	}
	if cfg.Port < 1 || cfg.Port > 65535 {
		errs = append(errs, fmt.Errorf("registry: dns: port: expected 1 to 65535, got %d", cfg.Port))
	}
	if cfg.Interval < 0 {
		errs = append(errs, fmt.Errorf("registry: dns: interval: expected 0 or more, got %v", cfg.Interval))
	}
	if cfg.Timeout < 0 {
		errs = append(errs, fmt.Errorf("registry: dns: timeout: expected 0 or more, got %v", cfg.Timeout))
	}
	if cfg.Misses < 0 {
		errs = append(errs, fmt.Errorf("registry: dns: misses: expected 0 or more, got %d", cfg.Misses))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Interval == 0 {
		cfg.Interval = 5 * time.Second
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.Misses == 0 {
		cfg.Misses = 3
	}
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	return &DNS{pool: pool, cfg: cfg, members: map[netip.Addr]*found{}}, nil
}

// Run looks the name up now and at every interval until ctx ends. It is
// called once.
func (d *DNS) Run(ctx context.Context) error {
	tick := time.NewTicker(d.cfg.Interval)
	defer tick.Stop()
	for {
		if err := d.look(ctx); err != nil && ctx.Err() == nil && d.cfg.OnError != nil {
			d.cfg.OnError(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (d *DNS) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	addrs, err := d.cfg.Resolver.LookupNetIP(ctx, "ip", d.cfg.Host)
	if err != nil {
		return fmt.Errorf("registry: dns: %w", err)
	}
	if len(addrs) == 0 {
		return fmt.Errorf("registry: dns: %s has no address", d.cfg.Host)
	}
	return d.follow(addrs)
}

// follow adds members for new addresses and removes those missing too often:
// a resolver may answer with a part of a long list at a time.
func (d *DNS) follow(addrs []netip.Addr) error {
	var errs []error
	seen := map[netip.Addr]bool{}
	for _, a := range addrs {
		a = a.Unmap()
		if seen[a] || !d.allowed(a) {
			continue
		}
		seen[a] = true
		if m := d.members[a]; m != nil {
			m.misses = 0
			continue
		}
		host := net.JoinHostPort(a.String(), strconv.Itoa(d.cfg.Port))
		r, err := d.pool.Add(ReplicaConfig{Name: host, URL: "http://" + host, Zone: d.cfg.Zone})
		if errors.Is(err, errAddressTaken) {
			continue // by a member that was added otherwise
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		d.members[a] = &found{replica: r}
	}
	for a, m := range d.members {
		if seen[a] {
			continue
		}
		if m.misses++; m.misses >= d.cfg.Misses {
			d.pool.Remove(m.replica)
			delete(d.members, a)
		}
	}
	return errors.Join(errs...)
}

func (d *DNS) allowed(a netip.Addr) bool {
	return d.cfg.Allow == nil || slices.ContainsFunc(d.cfg.Allow, func(p netip.Prefix) bool { return p.Contains(a) })
}
