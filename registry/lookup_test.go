package registry_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// zone is a small DNS server with one name.
type zone struct {
	conn   net.PacketConn
	mu     sync.Mutex
	v4, v6 string // what is answered: addresses, "none", "servfail" or "silence"
}

func startZone(t *testing.T) *zone {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z := &zone{conn: conn}
	var wg sync.WaitGroup
	wg.Go(z.serve)
	t.Cleanup(func() { conn.Close(); wg.Wait() })
	return z
}

func (z *zone) set(v4, v6 string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.v4, z.v6 = v4, v6
}

func (z *zone) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := z.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if a := z.answer(buf[:n]); a != nil {
			_, _ = z.conn.WriteTo(a, from)
		}
	}
}

// answer builds the message of RFC 1035, section 4, that answers q.
func (z *zone) answer(q []byte) []byte {
	const header, typeA, servfail = 12, 1, 2
	end := header
	for end < len(q) && q[end] != 0 {
		end += int(q[end]) + 1
	}
	if end += 5; end > len(q) { // the root, type and class
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	say := z.v6
	if binary.BigEndian.Uint16(q[end-4:]) == typeA {
		say = z.v4
	}
	a := append([]byte(nil), q[:end]...)
	clear(a[6:header])      // no records but the question, which is all there is of q
	a[2], a[3] = 0x84, 0x80 // an answer, and the last word
	switch say {
	case "silence":
		return nil
	case "servfail":
		a[3] |= servfail
		return a
	case "none":
		return a
	}
	for i, s := range strings.Fields(say) {
		ip := netip.MustParseAddr(s).AsSlice()
		binary.BigEndian.PutUint16(a[6:], uint16(i+1))
		a = append(a, 0xc0, header, q[end-4], q[end-3], 0, 1, 0, 0, 0, 0, 0, byte(len(ip))) // the name of the question, for no time
		a = append(a, ip...)
	}
	return a
}

// resolver asks z, and nobody else.
func (z *zone) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", z.conn.LocalAddr().String())
	}}
}

// TestDNSHalfAnAnswer: replicas of one family stay when only the question for
// that family fails, and leave when the answer to it is that there are none.
func TestDNSHalfAnAnswer(t *testing.T) {
	z := startZone(t)
	p := newPool(t, 0, registry.PoolConfig{})
	d, err := registry.NewDNS(p, registry.DNSConfig{
		Host: "vllm.test.", Port: 80, Misses: 1, Timeout: 20 * time.Second, Resolver: z.resolver(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		v4, v6 string
		fails  bool
		want   string
	}{
		{"10.0.0.1", "servfail", false, "10.0.0.1"}, // servers that know nothing of the other family
		{"10.0.0.1 10.0.0.2", "fd00::1", false, "10.0.0.1 10.0.0.2 fd00::1"},
		{"servfail", "fd00::1", true, "10.0.0.1 10.0.0.2 fd00::1"},
		{"silence", "fd00::1", true, "10.0.0.1 10.0.0.2 fd00::1"},
		{"10.0.0.1 10.0.0.4", "servfail", true, "10.0.0.1 10.0.0.4 fd00::1"},
		{"servfail", "servfail", true, "10.0.0.1 10.0.0.4 fd00::1"},
		{"10.0.0.1 10.0.0.3", "fd00::1", false, "10.0.0.1 10.0.0.3 fd00::1"},
		{"none", "fd00::1 fd00::2", false, "fd00::1 fd00::2"},
		{"10.0.0.1", "none", false, "10.0.0.1"},
		{"none", "none", true, "10.0.0.1"},
	} {
		z.set(tt.v4, tt.v6)
		ctx, cancel := context.WithCancel(t.Context())
		if tt.v4 == "silence" {
			ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		}
		err := d.Look(ctx)
		cancel()
		var got []string
		for _, r := range p.Replicas() {
			got = append(got, r.Target().Hostname())
		}
		slices.Sort(got)
		if fmt.Sprint(got) != "["+tt.want+"]" || (err != nil) != tt.fails {
			t.Errorf("A %s, AAAA %s: members %v, error %v; want [%s], failed %t", tt.v4, tt.v6, got, err, tt.want, tt.fails)
		}
	}
}

// halves is a resolver that leaves out of its first answer what it does not get.
type halves struct{ v4, v6 func() ([]netip.Addr, error) }

func (h *halves) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	switch network {
	case "ip4":
		return h.v4()
	case "ip6":
		return h.v6()
	}
	four, err4 := h.v4()
	six, err6 := h.v6()
	if all := append(four, six...); len(all) > 0 {
		return all, nil
	}
	return nil, cmp.Or(err4, err6)
}

// TestDNSTellsOfHalfAnAnswer: a lookup that fails for one family has failed, but
// is no outage.
func TestDNSTellsOfHalfAnAnswer(t *testing.T) {
	gives := func(s string) func() ([]netip.Addr, error) {
		return func() ([]netip.Addr, error) {
			if s == "" {
				return nil, errors.New("servfail")
			}
			return []netip.Addr{netip.MustParseAddr(s)}, nil
		}
	}
	var told []string
	res := new(halves)
	p := newPool(t, 0, registry.PoolConfig{})
	d, err := registry.NewDNS(p, registry.DNSConfig{
		Host: "vllm", Port: 80, Resolver: res,
		OnError:  func(err error) { told = append(told, fmt.Sprint("failed ", err)) },
		OnOutage: func(err error) { told = append(told, fmt.Sprint("outage ", err)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	const four, six = "10.0.0.1", "fd00::1"
	for _, tt := range []struct {
		v4, v6 string
		want   string
	}{
		{four, six, ""},
		{four, "", "failed registry: dns: vllm: servfail"},
		{"", six, "failed registry: dns: vllm: servfail"},
		{"", "", "failed registry: dns: vllm: servfail, outage registry: dns: vllm: servfail"},
		{four, "", "failed registry: dns: vllm: servfail, outage <nil>"},
		{four, six, ""},
	} {
		told = nil
		res.v4, res.v6 = gives(tt.v4), gives(tt.v6)
		err := d.Look(t.Context())
		if got := strings.Join(told, ", "); got != tt.want || (err != nil) != (tt.v4 == "" || tt.v6 == "") || len(p.Replicas()) != 2 {
			t.Errorf("version 4 %q, version 6 %q: told %q, error %v, %d members; want %q and 2", tt.v4, tt.v6, got, err, len(p.Replicas()), tt.want)
		}
	}
}

// fickle is a resolver whose first answer to all lacks a half that it has when
// asked for it.
type fickle struct{ all, v4 []netip.Addr }

func (f *fickle) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	if network == "ip4" {
		return f.v4, nil
	}
	return f.all, nil
}

// TestDNSOtherHalf: what the second question finds keeps members, and makes
// none: it may come from another name of a search list.
func TestDNSOtherHalf(t *testing.T) {
	four, six, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"), netip.MustParseAddr("192.0.2.7")
	res := &fickle{all: []netip.Addr{four, six}}
	p := newPool(t, 0, registry.PoolConfig{})
	d, err := registry.NewDNS(p, registry.DNSConfig{Host: "vllm", Port: 80, Misses: 1, Resolver: res})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		all, v4 []netip.Addr
		want    int
	}{
		{[]netip.Addr{four, six}, nil, 2},
		{[]netip.Addr{six}, []netip.Addr{four, other}, 2},
		{[]netip.Addr{six}, []netip.Addr{other}, 1},
	} {
		res.all, res.v4 = tt.all, tt.v4
		if err := d.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(p.Replicas()); got != tt.want || p.Replicas()[got-1].Target().Hostname() == other.String() {
			t.Errorf("all are %v, those of version 4 %v: %d members, want %d", tt.all, tt.v4, got, tt.want)
		}
	}
}
