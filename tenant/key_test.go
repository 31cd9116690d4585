package tenant_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"regexp"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tenant"
)

func TestNewKey(t *testing.T) {
	shape := regexp.MustCompile(`^xp-[0-9A-Za-z]{49}$`)
	seen := make(map[string]bool)
	for range 1000 {
		key, digest, err := tenant.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		if !shape.MatchString(key) {
			t.Fatalf("NewKey = %q, want the shape %v", key, shape)
		}
		if digest != tenant.Digest(key, nil) {
			t.Fatalf("digest of %q = %s, want what Digest says", key, digest)
		}
		sum := uint64(0)
		for _, c := range key[46:] {
			sum = sum*62 + uint64(strings.IndexRune("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", c))
		}
		if want := uint64(crc32.ChecksumIEEE([]byte(key[:46]))); sum != want {
			t.Fatalf("checksum of %q = %d, want the CRC-32 %d", key, sum, want)
		}
		if seen[key] {
			t.Fatalf("NewKey gave %q twice", key)
		}
		seen[key] = true
	}
}

// Every character is drawn evenly: over 43,000 draws none of the 62 strays
// by more than six standard deviations.
func TestNewKeyIsEven(t *testing.T) {
	var count [256]int
	const keys = 1000
	for range keys {
		key, _, _ := tenant.NewKey()
		for _, c := range []byte(key[3 : 3+43]) {
			count[c]++
		}
	}
	const mean = keys * 43 / 62.0
	for c, n := range count {
		if n != 0 && (float64(n) < mean-6*26.2 || float64(n) > mean+6*26.2) {
			t.Errorf("%q was drawn %d times, want about %.0f", rune(c), n, mean)
		}
	}
}

func FuzzDigest(f *testing.F) {
	f.Add("", []byte{})
	f.Add("abc", []byte("pepper"))
	f.Add("key", make([]byte, 65))
	f.Fuzz(func(t *testing.T, key string, pepper []byte) {
		plain := sha256.Sum256([]byte(key))
		want := plain[:]
		if len(pepper) > 0 {
			m := hmac.New(sha256.New, pepper)
			m.Write([]byte(key))
			want = m.Sum(nil)
		}
		if got := tenant.Digest(key, pepper); got != hex.EncodeToString(want) {
			t.Errorf("Digest(%q, %q) = %s, want %x", key, pepper, got, want)
		}
	})
}

// A change of any one character, at any place, breaks the checksum or the
// shape: no typing error costs a hash or is mistaken for a guess.
func TestEveryTypingErrorIsCaughtByShape(t *testing.T) {
	key, _, err := tenant.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if !tenant.WellFormed(key) {
		t.Fatalf("WellFormed(%q) = false", key)
	}
	for i := range key {
		for c := range 256 {
			b := []byte(key)
			if b[i] == byte(c) {
				continue
			}
			b[i] = byte(c)
			if tenant.WellFormed(string(b)) {
				t.Fatalf("WellFormed(%q) = true, want false: byte %d changed", b, i)
			}
		}
	}
}
