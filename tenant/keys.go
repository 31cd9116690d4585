package tenant

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

// Key is one stored key: its digest, never the key itself.
type Key struct {
	// Digest is what Digest returned for the key: 64 hexadecimal digits.
	Digest string

	// Tenant is whose key it is. Keys of one tenant share one *Tenant.
	Tenant *Tenant

	// Expires is when the key stops being valid. If zero, never.
	Expires time.Time

	// Name tells people which key of the tenant it is, such as "ci". It
	// appears in errors and may be empty.
	Name string
}

// String names the key without its digest.
func (k Key) String() string {
	id := "?"
	if k.Tenant != nil {
		id = k.Tenant.ID
	}
	return fmt.Sprintf("key %q of tenant %q", k.Name, id)
}

// GoString is String, so that %#v does not print the digest either.
func (k Key) GoString() string { return k.String() }

// Config says how keys are checked. The zero Config is ready to use.
type Config struct {
	// Pepper is a secret kept apart from the digests: digests are then
	// HMAC-SHA-256 under it, and stolen digests are of no use without it. If
	// empty, digests are SHA-256, which is enough for keys of 256 random
	// bits.
	Pepper []byte

	// ForeignKeys accepts keys that NewKey did not make, of 16 to 256 bytes.
	// They must come from a good source of at least 128 random bits, as
	// guessing is not slowed. Without it, whatever lacks the prefix or the
	// checksum is refused before anything is hashed.
	ForeignKeys bool

	// Failures limits failed attempts by address.
	Failures LimiterConfig

	// Address returns whose failed attempt a request is. If nil, the host of
	// http.Request.RemoteAddr; a gateway behind a proxy returns what that
	// proxy, and only that proxy, reports. An invalid address is counted
	// together with all other invalid ones.
	Address func(*http.Request) netip.Addr
}

// Keys maps keys to tenants. Authenticate may be called from any number of
// goroutines and takes no lock; Replace swaps the whole set at once.
type Keys struct {
	hash    *hasher
	foreign bool
	address func(*http.Request) netip.Addr
	limiter *Limiter
	nobody  Tenant // stands in for the tenant of an unknown key
	set     atomic.Pointer[keySet]
	refused atomic.Uint64
	limited atomic.Uint64
}

// keySet is an immutable set of keys.
type keySet struct {
	byDigest map[[sha256.Size]byte]entry
	tenants  int
}

type entry struct {
	digest  [sha256.Size]byte
	tenant  *Tenant
	expires time.Time
}

// NewKeys returns a Keys holding keys, or all that is wrong with them,
// joined. It keeps the tenants; they must not be changed afterwards.
func NewKeys(keys []Key, cfg Config) (*Keys, error) {
	limiter, lerr := NewLimiter(cfg.Failures)
	k := &Keys{
		hash:    newHasher(cfg.Pepper),
		foreign: cfg.ForeignKeys,
		address: cfg.Address,
		limiter: limiter,
		nobody:  Tenant{Disabled: true},
	}
	if k.address == nil {
		k.address = remoteAddr
	}
	if err := errors.Join(lerr, k.Replace(keys)); err != nil {
		return nil, err
	}
	return k, nil
}

// Replace swaps in another set of keys, for all requests that are
// authenticated after it returns. If anything is wrong with the new set, the
// old one stays and all mistakes are returned, joined.
func (k *Keys) Replace(keys []Key) error {
	set, err := newKeySet(keys, k.hash)
	if err != nil {
		return err
	}
	k.set.Store(set)
	return nil
}

func newKeySet(keys []Key, hash *hasher) (*keySet, error) {
	set := &keySet{byDigest: make(map[[sha256.Size]byte]entry, len(keys))}
	byID := make(map[string]*Tenant)
	noKey := hash.sum(nil)
	var errs []error
	bad := func(i int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("tenant: Keys[%d] (%v): %w", i, keys[i], fmt.Errorf(format, args...)))
	}
	for i, key := range keys {
		e := entry{tenant: key.Tenant, expires: key.Expires}
		if key.Tenant == nil {
			bad(i, "Tenant: must be set")
			continue
		}
		if known, ok := byID[key.Tenant.ID]; !ok {
			byID[key.Tenant.ID] = key.Tenant
			if err := key.Tenant.Validate(); err != nil {
				bad(i, "%w", err)
			}
		} else if known != key.Tenant {
			bad(i, "Tenant: another Tenant has the ID %q too", key.Tenant.ID)
		}
		// The value is never shown: it might be a key put there by mistake.
		n, err := hex.Decode(e.digest[:], []byte(key.Digest[:min(len(key.Digest), 2*sha256.Size)]))
		if key.Digest == "" {
			bad(i, "Digest: must be set to what Digest returns")
			continue
		}
		if err != nil || n != sha256.Size || len(key.Digest) != 2*sha256.Size {
			bad(i, "Digest: want the %d hexadecimal digits that Digest returns, not a key", 2*sha256.Size)
			continue
		}
		if e.digest == noKey || e.digest == [sha256.Size]byte{} {
			bad(i, "Digest: is that of no key at all")
			continue
		}
		if _, dup := set.byDigest[e.digest]; dup {
			bad(i, "Digest: an earlier key has the same")
			continue
		}
		set.byDigest[e.digest] = e
	}
	set.tenants = len(byID)
	return set, errors.Join(errs...)
}

// Authenticate returns the tenant whose key the request carries in its
// Authorization header, as "Bearer KEY". Otherwise it counts a failed attempt
// by the request's address and returns ErrUnauthorized or, once the address
// has failed too often, a *TooManyError. It reads only the headers.
func (k *Keys) Authenticate(r *http.Request) (*Tenant, error) {
	now := time.Now()
	if key, ok := bearer(r.Header); ok {
		if t := k.find(key, now); t != nil {
			return t, nil
		}
	}
	k.refused.Add(1)
	if wait := k.limiter.Failed(k.address(r), now); wait > 0 {
		k.limited.Add(1)
		return nil, &TooManyError{After: wait}
	}
	return nil, ErrUnauthorized
}

// find returns the tenant of key, or nil. Every key of the right shape takes
// the same path, whether it is known, expired or neither. The look-up in the
// map tells a guesser nothing: choosing a digest close to a stored one means
// finding a preimage.
func (k *Keys) find(key string, now time.Time) *Tenant {
	if k.foreign {
		if len(key) < 16 || len(key) > maxKeyLen {
			return nil
		}
	} else if !wellFormed(key) {
		return nil
	}
	digest := k.hash.sumString(key)
	e, found := k.set.Load().byDigest[digest]
	if !found {
		e.tenant = &k.nobody
	}
	same := subtle.ConstantTimeCompare(e.digest[:], digest[:]) == 1
	valid := e.expires.IsZero() || now.Before(e.expires)
	enabled := !e.tenant.Disabled
	if same && valid && enabled {
		return e.tenant
	}
	return nil
}

// bearer returns the token of the one Authorization header. The scheme's name
// is matched in any case (RFC 9110, section 11.1); several headers are
// refused, as the next hop might read another one.
func bearer(h http.Header) (string, bool) {
	v := h["Authorization"]
	if len(v) != 1 {
		return "", false
	}
	const scheme = "Bearer "
	if len(v[0]) < len(scheme) || !strings.EqualFold(v[0][:len(scheme)], scheme) {
		return "", false
	}
	key := strings.Trim(v[0][len(scheme):], " ")
	return key, key != ""
}

func remoteAddr(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr()
}

// Stats are counts since a Keys was made, and its size.
type Stats struct {
	Keys, Tenants int
	Refused       uint64 // attempts without a valid key
	Limited       uint64 // those of them that were answered with a *TooManyError
}

// Stats returns the counts as they are.
func (k *Keys) Stats() Stats {
	set := k.set.Load()
	return Stats{
		Keys:    len(set.byDigest),
		Tenants: set.tenants,
		Refused: k.refused.Load(),
		Limited: k.limited.Load(),
	}
}
