package tenant_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/expediterhq/expediter/tenant"
)

func newLimiter(t testing.TB, cfg tenant.LimiterConfig) *tenant.Limiter {
	t.Helper()
	l, err := tenant.NewLimiter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLimiter(t *testing.T) {
	l := newLimiter(t, tenant.LimiterConfig{PerMinute: 60, Burst: 3})
	addr := netip.MustParseAddr("192.0.2.1")
	now := time.Now()
	for i, want := range []time.Duration{0, 0, 0, time.Second, time.Second} {
		if got := l.Failed(addr, now); got != want {
			t.Errorf("attempt %d: wait %v, want %v", i, got, want)
		}
	}
	if got := l.Limited(addr, now.Add(300*time.Millisecond)); got != 700*time.Millisecond {
		t.Errorf("Limited after 300 ms = %v, want 700 ms", got)
	}
	if got := l.Failed(addr, now.Add(time.Second)); got != 0 {
		t.Errorf("after 1 s: wait %v, want 0", got)
	}
	if got := l.Failed(addr, now.Add(time.Second)); got != time.Second {
		t.Errorf("after 1 s, again: wait %v, want 1 s", got)
	}
	if got := l.Failed(netip.MustParseAddr("192.0.2.2"), now); got != 0 {
		t.Errorf("another address: wait %v, want 0", got)
	}
}

func TestLimiterCountsNetworks(t *testing.T) {
	tests := []struct {
		a, b string
		same bool
	}{
		{"2001:db8::1", "2001:db8::ffff:1", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
	}
	for _, tt := range tests {
		l := newLimiter(t, tenant.LimiterConfig{Burst: 1})
		now := time.Now()
		l.Failed(netip.MustParseAddr(tt.a), now)
		if got := l.Failed(netip.MustParseAddr(tt.b), now) > 0; got != tt.same {
			t.Errorf("%s counts with %s: %v, want %v", tt.b, tt.a, got, tt.same)
		}
	}
}

func TestLimiterConfig(t *testing.T) {
	for _, cfg := range []tenant.LimiterConfig{{PerMinute: -1}, {Burst: -1}, {PerMinute: 1e12}, {PerMinute: 1e-9}} {
		if _, err := tenant.NewLimiter(cfg); err == nil {
			t.Errorf("NewLimiter(%+v) succeeded", cfg)
		}
	}
}

// Against one exact bucket per address: the limiter never lets more through,
// and with far fewer addresses than cells it agrees always.
func TestLimiterAgainstExactBuckets(t *testing.T) {
	for _, tt := range []struct {
		addresses, step int // step: mean nanoseconds between attempts, times two
		least, most     int // attempts limited early
	}{
		{50, 4_000_000, 0, 0},
		{4_000, 40_000, 0, 300}, // a single row would limit some 10,000 early
		{200_000, 4_000, 1, 300_000},
	} {
		addresses, step := tt.addresses, tt.step
		rng := rand.New(rand.NewPCG(1, uint64(addresses)))
		l := newLimiter(t, tenant.LimiterConfig{PerMinute: 600, Burst: 5})
		const interval, tolerance = 100 * time.Millisecond, 400 * time.Millisecond
		model := make(map[netip.Addr]time.Time)
		now := time.Now()
		early := 0
		for range 300_000 {
			now = now.Add(time.Duration(rng.IntN(step)))
			var ip [4]byte
			binary.BigEndian.PutUint32(ip[:], uint32(rng.IntN(addresses)))
			addr := netip.AddrFrom4(ip)
			tat := model[addr]
			if tat.Before(now) {
				tat = now
			}
			want := max(0, tat.Sub(now)-tolerance)
			got := l.Failed(addr, now)
			if got < want {
				t.Fatalf("%d addresses: wait %v, want at least %v", addresses, got, want)
			}
			if got == 0 {
				model[addr] = tat.Add(interval)
			}
			if got > want {
				early++
			}
		}
		if early < tt.least || early > tt.most {
			t.Errorf("%d addresses: %d of 300000 attempts were limited early, want %d to %d", addresses, early, tt.least, tt.most)
		}
		t.Logf("%d addresses: %d limited early", addresses, early)
	}
}

func TestLimiterAllocatesNothing(t *testing.T) {
	l := newLimiter(t, tenant.LimiterConfig{})
	addr, now := netip.MustParseAddr("2001:db8::1"), time.Now()
	if n := testing.AllocsPerRun(100, func() { l.Failed(addr, now) }); n != 0 {
		t.Errorf("Failed allocates %v times, want 0", n)
	}
}
