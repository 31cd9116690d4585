package registry

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Resolver looks up the addresses of a host; network is "ip", "ip4" or
// "ip6". *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DNSConfig says which name holds the addresses of a pool's replicas, such as
// a headless service in Kubernetes. The functions are called one at a time,
// and must not call the DNS.
type DNSConfig struct {
	Host     string         // must be set
	Port     int            // must be set
	Scheme   string         // of every replica's address, http or https. If empty, http
	Zone     string         // given to every replica
	Interval time.Duration  // between lookups. If zero, 5 s
	Timeout  time.Duration  // of one lookup. If zero, 2 s
	Misses   int            // answers in a row without an address that remove it. If zero, 3
	Allow    []netip.Prefix // addresses outside are ignored. If nil, all are allowed
	// Usable says which addresses of those can be connected to; the others are
	// ignored too. If nil, all can.
	Usable   func(netip.Addr) bool
	Resolver Resolver // If nil, net.DefaultResolver
	// OnError is called for every lookup that failed, if only for one family of
	// addresses, and for members that cannot be added. If nil, neither is told.
	OnError func(error)
	// OnOutage is called when lookups begin to give no address, with the
	// reason, and with nil when one does again. If nil, neither is told.
	OnOutage func(error)
	// OnChange is called with the members that were added and those that were
	// taken away. If nil, neither is told.
	OnChange func(joined, left []*Replica)
	// OnLeftOut is called when other addresses than before cannot be added, with
	// the reasons, and with nil when none is left out any more. If nil, neither
	// is told.
	OnLeftOut func(error)
}

// DNS keeps a pool's members like the addresses of a name. Each is called by
// its address and port. A lookup that fails, or finds no address that is
// allowed, changes nothing: a resolver that is down must not empty a pool that
// works. A lookup that gives no IPv4 or no IPv6 address, while members have such,
// is followed by one for these alone, since resolvers leave out the half that
// failed; if that one fails, these members stay. Members that were added
// otherwise are left alone, and so is a replica that has an address of the name
// but was listed by [Static.Replace]. All methods may be called concurrently.
type DNS struct {
	pool *Pool
	cfg  DNSConfig

	mu      sync.Mutex // not held while an answer is waited for
	members map[string]*found
	filled  []filling    // what Fill gave to a pool that d's may have become since
	lasting int          // steps of Follow and Refill that look for what is in filled
	begun   bool         // there was such a step
	answer  []netip.Addr // that Follow has to follow; nil if there is none
	last    []netip.Addr // that the members were made like
	leftOut string       // why some of them are no members
	looked  bool
	down    bool // the last lookup gave no address
}

// found is a replica that a DNS added to its pool, kept by URL. It may have
// been taken out since, or listed.
type found struct {
	replica *Replica
	addr    netip.Addr
	misses  int // answers in a row without it
}

// NewDNS returns a DNS that fills pool. The error joins a *FieldError for
// every mistake in cfg.
func NewDNS(pool *Pool, cfg DNSConfig) (*DNS, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &DNS{pool: pool, cfg: cfg.withDefaults(), members: map[string]*found{}}, nil
}

// Run looks the name up now, unless Look has done so, and at every interval
// until ctx ends. The members stay when it returns. It is called once.
func (d *DNS) Run(ctx context.Context) error {
	tick := time.NewTicker(d.cfg.Interval)
	defer tick.Stop()
	d.mu.Lock()
	looked := d.looked
	d.mu.Unlock()
	for {
		if !looked {
			_ = d.Look(ctx) // told to those who are called
		}
		looked = false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Look looks the name up once and follows the answer. The error says why the
// pool does not follow it, or follows it only in part.
func (d *DNS) Look(ctx context.Context) error {
	err := d.Ask(ctx)
	if failed := d.Follow(); err == nil {
		err = failed
	}
	return err
}

// Ask looks the name up and leaves the pool as it is, until Follow. With an error
// there may still be an answer, for one family of addresses.
func (d *DNS) Ask(ctx context.Context) error {
	addrs, err := d.resolve(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looked = true
	if len(addrs) > 0 {
		d.answer = addrs
	}
	d.tell(ctx, err, len(addrs) == 0)
	return err
}

// Follow makes the pool's members like the answer that Ask had last. Without
// one since the last Follow the pool stays as it is, but for what Inherit says.
func (d *DNS) Follow() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.followLocked()
}

func (d *DNS) followLocked() error {
	claimed := d.claim()
	if d.answer == nil {
		d.dropUseless(claimed)
		return nil
	}
	d.last, d.answer = d.answer, nil
	err := d.follow(d.last, claimed)
	if err != nil && d.cfg.OnError != nil {
		d.cfg.OnError(err)
	}
	d.tellLeftOut(err)
	return err
}

// tellLeftOut calls who wants to know of addresses that cannot be added, if
// they are others than at the last call; resolvers answer in any order.
func (d *DNS) tellLeftOut(err error) {
	reasons := ""
	if err != nil {
		reasons = strings.Join(slices.Sorted(strings.SplitSeq(err.Error(), "\n")), "\n")
	}
	if reasons != d.leftOut && d.cfg.OnLeftOut != nil {
		d.cfg.OnLeftOut(err)
	}
	d.leftOut = reasons
}

// tell calls those who want to know of failures, of which those that left
// nothing are outages. One that only the end of ctx caused is none.
func (d *DNS) tell(ctx context.Context, err error, nothing bool) {
	if err != nil && ctx.Err() != nil {
		return
	}
	if err != nil && d.cfg.OnError != nil {
		d.cfg.OnError(err)
	}
	if nothing == d.down {
		return
	}
	if d.down = nothing; !nothing {
		err = nil
	}
	if d.cfg.OnOutage != nil {
		d.cfg.OnOutage(err)
	}
}

// follow adds members for new addresses and removes those missing too often:
// a resolver may answer with a part of a long list at a time.
func (d *DNS) follow(addrs []netip.Addr, claimed []*Replica) error {
	var leaving []*Replica
	seen := make(map[string]bool, len(addrs))
	for _, a := range addrs {
		seen[d.url(a)] = true
	}
	for url, m := range d.members {
		m.misses++
		switch {
		case seen[url]:
			m.misses = 0
		case m.misses >= d.cfg.Misses:
			leaving = append(leaving, m.replica)
			delete(d.members, url)
		}
	}
	return d.exchange(leaving, addrs, claimed)
}

// exchange makes members of addresses that have none, and of leaving none. It
// tells of these, and of those that were claimed.
func (d *DNS) exchange(leaving []*Replica, addrs []netip.Addr, claimed []*Replica) error {
	var joining []ReplicaConfig
	byURL := make(map[string]netip.Addr, len(addrs))
	for _, a := range addrs {
		url := d.url(a)
		byURL[url] = a
		if m := d.members[url]; m == nil || !d.pool.holds(m.replica) {
			joining = append(joining, d.replica(a))
		}
	}
	joined, left, err := d.pool.exchange(leaving, joining)
	for _, r := range joined {
		d.members[r.url] = &found{replica: r, addr: byURL[r.url]}
	}
	if joined = append(claimed, joined...); len(joined)+len(left) > 0 && d.cfg.OnChange != nil {
		d.cfg.OnChange(joined, left)
	}
	return err
}

// Refill gives the pool again what the last answer held and something else
// took away, such as a replica whose address was listed for a time. It looks
// nothing up. An answer that has not been followed is followed instead.
func (d *DNS) Refill() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lasting = min(d.lasting, 1)
	if d.answer != nil {
		return d.followLocked()
	}
	err := d.exchange(nil, d.last, d.claim())
	d.tellLeftOut(err)
	return err
}

func (d *DNS) allowed(a netip.Addr) bool {
	if a.Zone() != "" {
		return false // no URL leads to it
	}
	if d.cfg.Usable != nil && !d.cfg.Usable(a) {
		return false
	}
	return d.cfg.Allow == nil || slices.ContainsFunc(d.cfg.Allow, func(p netip.Prefix) bool { return p.Contains(a) })
}

// replica is the one at a.
func (d *DNS) replica(a netip.Addr) ReplicaConfig {
	return ReplicaConfig{Name: d.hostPort(a), URL: d.url(a), Zone: d.cfg.Zone}
}

func (d *DNS) hostPort(a netip.Addr) string {
	return net.JoinHostPort(a.String(), strconv.Itoa(d.cfg.Port))
}

func (d *DNS) url(a netip.Addr) string { return d.cfg.Scheme + "://" + d.hostPort(a) }
