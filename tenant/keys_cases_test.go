package tenant_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/tenant"
)

// walk calls f with every string and every array or slice of bytes that v leads
// to.
func walk(v reflect.Value, seen map[uintptr]bool, f func(string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		walk(v.Elem(), seen, f)
	case reflect.Interface:
		walk(v.Elem(), seen, f)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Type.Kind() == reflect.UnsafePointer {
				continue // that of an atomic.Pointer, which is given as it is
			}
			walk(v.Field(i), seen, f)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			walk(it.Key(), seen, f)
			walk(it.Value(), seen, f)
		}
	case reflect.String:
		f(v.String())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			var b []byte
			for i := range v.Len() {
				b = append(b, byte(v.Index(i).Uint()))
			}
			f(string(b))
			return
		}
		if v.Type().Elem().Kind() == reflect.Struct && v.Len() > 1000 {
			return // the cells of the limiter
		}
		for i := range v.Len() {
			walk(v.Index(i), seen, f)
		}
	}
}

// What Keys holds in memory is the digest, and no part of the key it was made of,
// not even of one that was just used; all that is compared has the length of a
// digest.
func TestP4NoKeyIsHeld(t *testing.T) {
	key, digest := newKey(t, nil)
	k := newKeys(t, tenant.Config{}, tenant.Key{Digest: digest, Tenant: &tenant.Tenant{ID: "acme"}, Name: "ci"})
	for _, auth := range []string{"Bearer " + key, "Bearer " + key + "x"} {
		_, _ = k.Authenticate(request("192.0.2.1:1", auth))
	}
	held, digests := 0, 0
	check := func(s string) {
		held++
		if strings.Contains(s, key[3:20]) || strings.Contains(s, key[20:40]) {
			t.Errorf("a part of the key is held: %q", s)
		}
		if fmt.Sprintf("%x", s) == digest {
			digests++
		}
	}
	seen := make(map[uintptr]bool)
	walk(reflect.ValueOf(k), seen, check)
	walk(tenant.HeldBy(k), seen, check)
	if digests == 0 {
		t.Errorf("the digest is not among the %d strings found: nothing was searched", held)
	}
}

// An empty key, and the digest of one, match nothing, in whatever way they come.
func TestP4EmptyNeverMatches(t *testing.T) {
	acme := &tenant.Tenant{ID: "acme"}
	for _, empty := range []string{tenant.Digest("", nil), strings.Repeat("0", 64), ""} {
		for _, foreign := range []bool{false, true} {
			if _, err := tenant.NewKeys([]tenant.Key{{Digest: empty, Tenant: acme}}, tenant.Config{ForeignKeys: foreign}); err == nil {
				t.Errorf("the digest %q of no key was accepted", empty)
			}
		}
	}
	k := newKeys(t, tenant.Config{ForeignKeys: true})
	for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer  ", "Bearer " + tenant.Digest("", nil), "Bearer \x00"} {
		if got, err := k.Authenticate(request("192.0.2.1:1", auth)); got != nil || !errors.Is(err, tenant.ErrUnauthorized) {
			t.Errorf("%q: Authenticate = %v, %v", auth, got, err)
		}
	}
}

// No prefix effect: keys that share nothing with a stored one, and keys that share
// all but their end, take the same time. It compares what was measured side by
// side, by medians of many rounds, and needs a quiet machine: it runs with
// EXPEDITER_TIMING=1. BenchmarkP4Authenticate prints the figures.
func TestP4Timing(t *testing.T) {
	if os.Getenv("EXPEDITER_TIMING") == "" {
		t.Skip("set EXPEDITER_TIMING=1 on a quiet machine")
	}
	key, digest := newKey(t, nil)
	other, otherDigest := newKey(t, nil)
	k := newKeys(t, tenant.Config{}, tenant.Key{Digest: digest, Tenant: &tenant.Tenant{ID: "acme"}},
		tenant.Key{Digest: otherDigest, Tenant: &tenant.Tenant{ID: "late"}, Expires: time.Unix(1, 0)})
	alike := func(n int) string { // shares n characters with key
		u, _ := newKey(t, nil)
		return tenant.WithSum(key[:n] + u[n:46])
	}
	kinds := []string{alike(3), alike(20), alike(45), other}
	took := make([][]float64, len(kinds))
	for range 400 {
		for i, key := range kinds {
			r := request("192.0.2.1:1", "Bearer "+key)
			start := time.Now()
			for range 200 {
				_, _ = k.Authenticate(r)
			}
			took[i] = append(took[i], float64(time.Since(start))/200)
		}
	}
	for i := range took {
		slices.Sort(took[i])
		ratio := took[i][200] / took[0][200]
		t.Logf("kind %d: median %.0f ns, %.3f of the first", i, took[i][200], ratio)
		if ratio < 0.9 || ratio > 1.1 {
			t.Errorf("kind %d takes %.3f times as long as keys that share nothing", i, ratio)
		}
	}
}

// In one second, 20,000 wrong keys beside 500 good ones: every good one passes,
// every wrong one is refused, and all but the burst of each address with a wait.
func TestP11TwentyThousandWrongKeysASecond(t *testing.T) {
	for _, addresses := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			key, digest := newKey(t, nil)
			k := newKeys(t, tenant.Config{}, tenant.Key{Digest: digest, Tenant: &tenant.Tenant{ID: "acme"}})
			const wrong, good, burst = 20_000, 500, 20
			for i := range wrong {
				bad, _ := newKey(t, nil)
				_, err := k.Authenticate(request(fmt.Sprintf("192.0.2.%d:1", i%addresses), "Bearer "+bad))
				var limited *tenant.TooManyError
				if wait := i/addresses >= burst; errors.As(err, &limited) != wait || !errors.Is(err, tenant.ErrUnauthorized) {
					t.Fatalf("attempt %d: %v, want a wait: %v", i, err, wait)
				}
				if i%(wrong/good) == 0 {
					if _, err := k.Authenticate(request("192.0.2.0:1", "Bearer "+key)); err != nil {
						t.Fatalf("a good key from a flooding address: %v", err)
					}
				}
				time.Sleep(time.Second / wrong)
			}
			want := tenant.Stats{Keys: 1, Tenants: 1, Refused: wrong, Limited: uint64(wrong - burst*addresses)}
			if got := k.Stats(); got != want {
				t.Errorf("Stats = %+v, want %+v", got, want)
			}
		})
	}
}
