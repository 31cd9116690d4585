package tenant_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/tenant"
)

// newKey makes a key and its digest under pepper.
func newKey(t testing.TB, pepper []byte) (key, digest string) {
	t.Helper()
	key, _, err := tenant.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, tenant.Digest(key, pepper)
}

func newKeys(t testing.TB, cfg tenant.Config, keys ...tenant.Key) *tenant.Keys {
	t.Helper()
	k, err := tenant.NewKeys(keys, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func request(addr string, authorization ...string) *http.Request {
	r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
	r.RemoteAddr = addr
	if len(authorization) > 0 {
		r.Header["Authorization"] = authorization
	}
	return r
}

func TestP4Authenticate(t *testing.T) {
	for _, pepper := range [][]byte{nil, []byte("pepper"), []byte(strings.Repeat("long pepper ", 20))} {
		good, goodDigest := newKey(t, pepper)
		expired, expiredDigest := newKey(t, pepper)
		off, offDigest := newKey(t, pepper)
		unknown, unknownDigest := newKey(t, pepper)
		acme, gone := &tenant.Tenant{ID: "acme"}, &tenant.Tenant{ID: "gone", Disabled: true}
		k := newKeys(t, tenant.Config{Pepper: pepper, Failures: tenant.LimiterConfig{Burst: 1000}},
			tenant.Key{Digest: goodDigest, Tenant: acme, Expires: time.Now().Add(time.Hour)},
			tenant.Key{Digest: expiredDigest, Tenant: acme, Expires: time.Now().Add(-time.Second)},
			tenant.Key{Digest: offDigest, Tenant: gone})
		flipped := []byte(good)
		flipped[10] ^= 1
		tests := []struct {
			name   string
			header []string
			want   *tenant.Tenant
		}{
			{"good", []string{"Bearer " + good}, acme},
			{"scheme in capitals", []string{"BEARER " + good}, acme},
			{"spaces around", []string{"Bearer   " + good + " "}, acme},
			{"none", nil, nil},
			{"empty header", []string{""}, nil},
			{"scheme only", []string{"Bearer "}, nil},
			{"scheme without space", []string{"Bearer"}, nil},
			{"basic", []string{"Basic " + good}, nil},
			{"no scheme", []string{good}, nil},
			{"two headers", []string{"Bearer " + good, "Bearer " + good}, nil},
			{"unknown", []string{"Bearer " + unknown}, nil},
			{"expired", []string{"Bearer " + expired}, nil},
			{"disabled", []string{"Bearer " + off}, nil},
			{"one bit off", []string{"Bearer " + string(flipped)}, nil},
			{"cut", []string{"Bearer " + good[:len(good)-1]}, nil},
			{"longer", []string{"Bearer " + good + "0"}, nil},
			{"digest as key", []string{"Bearer " + goodDigest}, nil},
			{"digest of unknown", []string{"Bearer " + unknownDigest}, nil},
			{"not ASCII", []string{"Bearer xp-" + strings.Repeat("\xff", 49)}, nil},
			{"NUL", []string{"Bearer " + good[:5] + "\x00" + good[6:]}, nil},
			{"huge", []string{"Bearer " + strings.Repeat("x", 1<<20)}, nil},
		}
		for _, tt := range tests {
			got, err := k.Authenticate(request("192.0.2.1:999", tt.header...))
			if got != tt.want {
				t.Errorf("%s: Authenticate = %v, want %v", tt.name, got, tt.want)
			}
			if tt.want == nil && err != tenant.ErrUnauthorized {
				t.Errorf("%s: error %v, want ErrUnauthorized itself", tt.name, err)
			}
			if tt.want != nil && err != nil {
				t.Errorf("%s: error %v, want none", tt.name, err)
			}
		}
	}
}

func TestForeignKeys(t *testing.T) {
	const foreign = "sk-a-key-made-elsewhere-é-0123456789"
	acme := &tenant.Tenant{ID: "acme"}
	key := tenant.Key{Digest: tenant.Digest(foreign, nil), Tenant: acme}
	strict := newKeys(t, tenant.Config{}, key)
	if _, err := strict.Authenticate(request("192.0.2.1:1", "Bearer "+foreign)); err != tenant.ErrUnauthorized {
		t.Errorf("without ForeignKeys: error %v, want ErrUnauthorized", err)
	}
	k := newKeys(t, tenant.Config{ForeignKeys: true}, key)
	if got, err := k.Authenticate(request("192.0.2.1:1", "Bearer "+foreign)); got != acme || err != nil {
		t.Errorf("with ForeignKeys: %v, %v, want acme", got, err)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 257), foreign + "0"} {
		if _, err := k.Authenticate(request("192.0.2.1:1", "Bearer "+bad)); err != tenant.ErrUnauthorized {
			t.Errorf("Authenticate(%.20q) error = %v, want ErrUnauthorized", bad, err)
		}
	}
}

func TestExpiryIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, digest := newKey(t, nil)
		k := newKeys(t, tenant.Config{}, tenant.Key{
			Digest: digest, Tenant: &tenant.Tenant{ID: "acme"}, Expires: time.Now().Add(time.Minute)})
		time.Sleep(time.Minute - 1)
		if _, err := k.Authenticate(request("192.0.2.1:1", "Bearer "+key)); err != nil {
			t.Errorf("1 ns before expiry: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := k.Authenticate(request("192.0.2.1:1", "Bearer "+key)); err != tenant.ErrUnauthorized {
			t.Errorf("at expiry: error %v, want ErrUnauthorized", err)
		}
	})
}

func TestNewKeysReportsAllMistakes(t *testing.T) {
	key, digest := newKey(t, nil)
	_, other := newKey(t, nil)
	acme := &tenant.Tenant{ID: "acme"}
	_, err := tenant.NewKeys([]tenant.Key{
		{Digest: digest, Tenant: acme, Name: "first"},
		{Digest: digest, Tenant: acme},
		{Digest: strings.ToUpper(digest), Tenant: acme},
		{Digest: "", Tenant: acme},
		{Digest: key, Tenant: acme, Name: "pasted"},
		{Digest: strings.Repeat("0", 64), Tenant: acme},
		{Digest: tenant.Digest("", nil), Tenant: acme},
		{Digest: other, Tenant: &tenant.Tenant{ID: "acme"}},
		{Digest: other},
		{Digest: other, Tenant: &tenant.Tenant{ID: "a b", Weight: -1}},
	}, tenant.Config{Failures: tenant.LimiterConfig{PerMinute: -1}})
	if err == nil {
		t.Fatal("NewKeys accepted it all")
	}
	for _, want := range []string{
		"PerMinute", "Keys[1]", "Keys[2]", `Keys[3] (key "" of tenant "acme"): Digest: must be set`, `Keys[4] (key "pasted" of tenant "acme"): Digest`,
		"Keys[5]", "Keys[6]", "Keys[7]", "Keys[8]", "Keys[9]", "tenant: ID:", "tenant: Weight:",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "Keys[0]") {
		t.Errorf("error names Keys[0], which is right: %v", err)
	}
	for _, secret := range []string{key, digest, other} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("error shows a key or digest: %v", err)
		}
	}
}

func TestReplace(t *testing.T) {
	a, aDigest := newKey(t, nil)
	b, bDigest := newKey(t, nil)
	k := newKeys(t, tenant.Config{}, tenant.Key{Digest: aDigest, Tenant: &tenant.Tenant{ID: "a"}})
	if err := k.Replace([]tenant.Key{{Digest: "nonsense", Tenant: &tenant.Tenant{ID: "b"}}}); err == nil {
		t.Fatal("Replace accepted a bad digest")
	}
	if _, err := k.Authenticate(request("192.0.2.1:1", "Bearer "+a)); err != nil {
		t.Errorf("after a refused Replace the old key fails: %v", err)
	}
	if err := k.Replace([]tenant.Key{{Digest: bDigest, Tenant: &tenant.Tenant{ID: "b"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Authenticate(request("192.0.2.1:1", "Bearer "+a)); err != tenant.ErrUnauthorized {
		t.Errorf("a revoked key: error %v, want ErrUnauthorized", err)
	}
	if got, err := k.Authenticate(request("192.0.2.1:1", "Bearer "+b)); err != nil || got.ID != "b" {
		t.Errorf("the new key: %v, %v", got, err)
	}
	want := tenant.Stats{Keys: 1, Tenants: 1, Refused: 1}
	if got := k.Stats(); got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
}

// A flood of bad keys of every shape from one address and from many, beside
// good ones: every good one passes, also from the flooding address.
func TestP11FloodDoesNotRefuseGoodKeys(t *testing.T) {
	key, digest := newKey(t, nil)
	k := newKeys(t, tenant.Config{}, tenant.Key{Digest: digest, Tenant: &tenant.Tenant{ID: "acme"}})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				bad := fmt.Sprintf("Bearer junk-%d-%d", g, i)
				if i%2 == 0 {
					u, _, _ := tenant.NewKey()
					bad = "Bearer " + u
				}
				addr := "192.0.2.1:1"
				if g > 0 {
					addr = fmt.Sprintf("10.%d.%d.%d:1", g, i/256, i%256)
				}
				if _, err := k.Authenticate(request(addr, bad)); !errors.Is(err, tenant.ErrUnauthorized) {
					t.Errorf("a bad key: error %v", err)
				}
			}
		})
	}
	for range 1000 {
		if _, err := k.Authenticate(request("192.0.2.1:1", "Bearer "+key)); err != nil {
			t.Fatalf("a good key beside the flood: %v", err)
		}
	}
	wg.Wait()
	var limited *tenant.TooManyError
	if _, err := k.Authenticate(request("192.0.2.1:1", "Bearer x")); !errors.As(err, &limited) || limited.RetryAfter() < time.Second {
		t.Errorf("the flooding address: error %v, want *TooManyError", err)
	}
	if s := k.Stats(); s.Refused != 8001 || s.Limited == 0 || s.Limited > 8001-20 {
		t.Errorf("Stats = %+v, want 8001 refused", s)
	}
}

func TestAddressOfTheConfig(t *testing.T) {
	k := newKeys(t, tenant.Config{
		Failures: tenant.LimiterConfig{Burst: 1},
		Address: func(r *http.Request) netip.Addr {
			a, _ := netip.ParseAddr(r.Header.Get("X-Real-Ip"))
			return a
		},
	})
	for i, want := range []bool{false, false, false, true, true} {
		r := request("192.0.2.1:1")
		if i != 2 {
			r.Header.Set("X-Real-Ip", []string{"198.51.100.1", "198.51.100.2", "", "198.51.100.2", "198.51.100.1"}[i])
		}
		var limited *tenant.TooManyError
		if _, err := k.Authenticate(r); errors.As(err, &limited) != want {
			t.Errorf("attempt %d: error %v, want limited %v", i, err, want)
		}
	}
}

func TestNothingPrintsSecrets(t *testing.T) {
	pepper := []byte("PEPPER-MARK")
	key, digest := newKey(t, pepper)
	stored := tenant.Key{Digest: digest, Tenant: &tenant.Tenant{ID: "acme"}, Name: "ci"}
	k := newKeys(t, tenant.Config{Pepper: pepper}, stored)
	_, err := k.Authenticate(request("192.0.2.1:1", "Bearer "+key+"x"))
	out := fmt.Sprintf("%v %+v %#v %v %+v %#v %v %+v", stored, stored, stored, k, k, k, err, []tenant.Key{stored})
	for _, secret := range []string{key, digest, string(pepper)} {
		if strings.Contains(out, secret) {
			t.Errorf("printed %q: %s", secret, out)
		}
	}
}

func TestAuthenticateAllocatesNothing(t *testing.T) {
	for _, pepper := range [][]byte{nil, []byte("pepper")} {
		key, digest := newKey(t, pepper)
		k := newKeys(t, tenant.Config{Pepper: pepper}, tenant.Key{Digest: digest, Tenant: &tenant.Tenant{ID: "acme"}})
		r := request("192.0.2.1:1", "Bearer "+key)
		if n := testing.AllocsPerRun(100, func() { k.Authenticate(r) }); n != 0 {
			t.Errorf("pepper %q: Authenticate allocates %v times, want 0", pepper, n)
		}
	}
}

// A flood of keys from 200,000 addresses leaves nothing behind in memory.
func TestP11FloodLeavesMemoryFlat(t *testing.T) {
	key, digest := newKey(t, nil)
	k := newKeys(t, tenant.Config{}, tenant.Key{Digest: digest, Tenant: &tenant.Tenant{ID: "acme"}})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	r := request("", "Bearer "+key[:len(key)-1]+"-")
	before := heap()
	for i := range 200_000 {
		r.RemoteAddr = fmt.Sprintf("[2001:db8:%x:%x::1]:443", i>>8, i&0xff)
		k.Authenticate(r)
	}
	if after := heap(); after > before+1<<16 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	runtime.KeepAlive(k)
}

// The four kinds of keys that get as far as the digest should cost the same,
// however much of a stored key they share.
func BenchmarkP4Authenticate(b *testing.B) {
	key, digest := newKey(b, nil)
	k := newKeys(b, tenant.Config{}, tenant.Key{Digest: digest, Tenant: &tenant.Tenant{ID: "acme"}})
	unknown, _ := newKey(b, nil)
	expired, expiredDigest := newKey(b, nil)
	if err := k.Replace([]tenant.Key{
		{Digest: digest, Tenant: &tenant.Tenant{ID: "acme"}},
		{Digest: expiredDigest, Tenant: &tenant.Tenant{ID: "late"}, Expires: time.Unix(1, 0)},
	}); err != nil {
		b.Fatal(err)
	}
	similar := key[:45] + string(rune('A'+(key[45]+1)%26)) // one character before the checksum differs
	similar = tenant.WithSum(similar)
	for _, bb := range []struct{ name, header string }{
		{"good", "Bearer " + key}, {"unknown", "Bearer " + unknown}, {"expired", "Bearer " + expired}, {"similar", "Bearer " + similar}, {"malformed", "Bearer " + key[1:]},
	} {
		r := request("192.0.2.1:1", bb.header)
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				k.Authenticate(r)
			}
		})
	}
}
