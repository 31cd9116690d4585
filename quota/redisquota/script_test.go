package redisquota

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
)

func newTestStore(t *testing.T, addr string) *Store {
	t.Helper()
	client := Client(redis.UniversalOptions{Addrs: []string{addr}})
	s, err := New(client, Config{Policy: Closed, Timeout: 10e9, Patience: 10e9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		client.Close()
	})
	return s
}

// The scripts check what they are given even though the package never gives them
// anything wrong.
func TestH13ScriptsRefuseWrongNumbers(t *testing.T) {
	s := newTestStore(t, redistest.Start(t).Addr)
	ctx := context.Background()
	r := quota.Reservation{ID: "1", Tenant: "t", Cost: 400, Limit: quota.Limit{Windows: []quota.Window{{Name: "w", Burst: 1000}}}}
	if err := s.Reserve(ctx, r); err != nil {
		t.Fatal(err)
	}
	want, err := s.Balance(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	nan, inf := math.NaN(), math.Inf(1)
	claim := func(cost, used, lease, slots float64) string {
		b := doubles(nil, cost, used, 0, lease)
		if slots != -9 {
			b = doubles(b, slots)
		}
		return string(b)
	}
	window := func(rate, burst float64) string { return string(doubles(nil, rate, burst)) }
	good := window(1, 1000)
	type args struct{ numbers, window string }
	reserve := []args{
		{"", good}, {"12", good}, {claim(1, 0, 1e6, 0) + "x", good},
		{claim(1, 0, 1e6, 0), window(nan, 1000)}, {claim(1, 0, 1e6, 0), window(-1, 1000)}, {claim(1, 0, 1e6, 0), window(inf, 1000)},
		{claim(1, 0, 1e6, 0), window(1, nan)}, {claim(1, 0, 1e6, 0), window(1, -1)}, {claim(1, 0, 1e6, 0), window(1, inf)},
	}
	var renew []args
	for _, x := range []float64{nan, inf, -inf, -1, -1e6, 1 << 60} {
		for _, c := range [][3]float64{{x, 0, 1e6}, {1, x, 1e6}, {1, 0, x}} {
			reserve = append(reserve, args{claim(c[0], c[1], c[2], 0), good})
			renew = append(renew, args{claim(c[0], c[1], c[2], -9), good[:8]})
		}
		reserve = append(reserve, args{claim(1, 0, 1e6, x), good})
	}
	reserve = append(reserve, args{claim(0, 0, 1e6, 0), good}, args{claim(0.5, 0, 1e6, 0), good})
	settle := []args{{"", good[:8]}}
	for _, x := range []float64{nan, inf, -inf, -1, 1 << 60} {
		settle = append(settle, args{string(doubles(nil, x, 0)), good[:8]})
	}
	for sc, all := range map[*script][]args{s.reserve: reserve, s.renew: renew, s.settle: settle} {
		for _, id := range []string{"r:1", "r:2"} {
			for _, a := range all {
				k := keysOf(s, "t")
				got, err := s.client.Eval(ctx, sc.src, k, s.keep, a.numbers, "w:w", "h", id, "w:w", a.window).Slice()
				if err != nil || fmt.Sprint(got[0]) != "6" {
					// A known id is answered before its windows are looked at.
					if id == "r:1" && sc == s.reserve && len(got) == 3 && fmt.Sprint(got[0]) == "1" && a.window != good {
						continue
					}
					t.Errorf("%q %q: %v %v, want verdict 6", a.numbers, a.window, got, err)
				}
			}
		}
	}
	got, err := s.Balance(ctx, "t")
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("balance %+v %v, was %+v", got, err, want)
	}
}

func TestEscapeIsInjective(t *testing.T) {
	seen := map[string]string{}
	for a := range 256 {
		for b := -1; b < 256; b++ {
			s := string([]byte{byte(a)})
			if b >= 0 {
				s += string([]byte{byte(b)})
			}
			e := escaped(s)
			if old, ok := seen[e]; ok {
				t.Fatalf("escaped(%q) = escaped(%q) = %q", s, old, e)
			}
			seen[e] = s
			if back, err := url.PathUnescape(e); err != nil || back != s {
				t.Fatalf("escaped(%q) = %q, which reads as %q, %v", s, e, back, err)
			}
			for i := range len(e) {
				if !safe(e[i]) && e[i] != '%' {
					t.Fatalf("escaped(%q) = %q", s, e)
				}
			}
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("{a}", "a")
	f.Add("%7B", "{")
	f.Fuzz(func(t *testing.T, a, b string) {
		if (escaped(a) == escaped(b)) != (a == b) {
			t.Errorf("escaped(%q) = %q, escaped(%q) = %q", a, escaped(a), b, escaped(b))
		}
	})
}

// The server's clock is set back: a little is waited for, so that no time counts
// twice; a lot is followed, so that windows do not stand still for hours.
func TestServerClockSetBack(t *testing.T) {
	server := redistest.Start(t)
	s := newTestStore(t, server.Addr)
	ctx := context.Background()
	limit := quota.Limit{Windows: []quota.Window{{Name: "w", Rate: 1000, Burst: 10_000}}}
	for _, tt := range []struct {
		ahead  float64 // seconds
		follow bool
	}{{30, false}, {7200, true}} {
		tenant := fmt.Sprint(tt.ahead)
		k := keysOf(s, tenant)
		now, err := s.client.Time(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		at := float64(now.UnixMicro()) + tt.ahead*1e6
		if err := s.client.HSet(ctx, k[0], "w:w", string(doubles(nil, 5000, at, 1000))).Err(); err != nil {
			t.Fatal(err)
		}
		r := quota.Reservation{ID: "1", Tenant: tenant, Limit: limit, Cost: 1000}
		if err := s.Reserve(ctx, r); err != nil {
			t.Fatal(err)
		}
		state, err := s.client.HGet(ctx, k[0], "w:w").Result()
		if err != nil || len(state) != 24 {
			t.Fatalf("state %q %v", state, err)
		}
		read := func(i int) float64 { return math.Float64frombits(binary.BigEndian.Uint64([]byte(state[i:]))) }
		if read(0) != 6000 {
			t.Errorf("%v s ahead: spent %v, want 6000", tt.ahead, read(0))
		}
		if moved := read(8) != at; moved != tt.follow {
			t.Errorf("%v s ahead: the window's clock moved by %v", tt.ahead, read(8)-at)
		}
	}
}

func TestShare(t *testing.T) {
	s := &Store{cfg: Config{Share: 0.3}}
	r := quota.Reservation{ID: "1", Tenant: "t", Cost: 5, Limit: quota.Limit{Concurrency: 10, Windows: []quota.Window{
		{Name: "a", Rate: 100, Burst: 1000}, {Name: "b", Rate: 0, Burst: 1},
	}}}
	got := s.share(&r)
	want := quota.Limit{Concurrency: 3, Windows: []quota.Window{{Name: "a", Rate: 30, Burst: 300}, {Name: "b"}}}
	if !reflect.DeepEqual(got.Limit, want) {
		t.Errorf("share = %+v, want %+v", got.Limit, want)
	}
	if r.Limit.Windows[0].Burst != 1000 {
		t.Error("share changed the reservation it was given")
	}
	r.Limit.Concurrency = 2
	if got := s.share(&r).Limit.Concurrency; got != 1 {
		t.Errorf("share of 2 slots = %d, want 1", got)
	}
	r.Limit.Concurrency = 0
	if got := s.share(&r).Limit.Concurrency; got != 0 {
		t.Errorf("share of no cap = %d, want no cap", got)
	}
}

func keysOf(s *Store, tenant string) []string { return s.balanceOp(tenant).text[:2] }

func escaped(s string) string { return string(appendEscaped(nil, s)) }

func doubles(b []byte, fs ...float64) []byte {
	for _, f := range fs {
		b = appendDouble(b, f)
	}
	return b
}

// The slots are those that Redis computes.
func TestSlot(t *testing.T) {
	t.Parallel()
	server := redistest.StartCluster(t, 1).Nodes[0]
	for _, tag := range []string{"", "a", "123456789", "tacme", "t%7Bx%7D", "some longer tag with many letters"} {
		if got, want := fmt.Sprint(":", slot([]byte(tag))), server.Do("CLUSTER", "KEYSLOT", tag); got != want {
			t.Errorf("slot(%q) = %s, redis says %s", tag, got, want)
		}
	}
}
