package tenant

import "crypto/sha256"

// maxKeyLen bounds what is hashed, in bytes.
const maxKeyLen = 256

// hasher turns keys into digests: SHA-256, or HMAC-SHA-256 (RFC 2104) with
// the two padded peppers computed once, so that a check allocates nothing.
type hasher struct {
	peppered     bool
	inner, outer [sha256.BlockSize]byte
}

func newHasher(pepper []byte) *hasher {
	h := &hasher{peppered: len(pepper) > 0}
	if len(pepper) > sha256.BlockSize {
		sum := sha256.Sum256(pepper)
		pepper = sum[:]
	}
	copy(h.inner[:], pepper)
	copy(h.outer[:], pepper)
	for i := range h.inner {
		h.inner[i] ^= 0x36
		h.outer[i] ^= 0x5c
	}
	return h
}

func (h *hasher) sum(key []byte) [sha256.Size]byte {
	if !h.peppered {
		return sha256.Sum256(key)
	}
	var buf [sha256.BlockSize + maxKeyLen]byte
	inner := sha256.Sum256(append(append(buf[:0], h.inner[:]...), key...))
	return sha256.Sum256(append(append(buf[:0], h.outer[:]...), inner[:]...))
}

// sumString is sum without a copy on the heap. The key must be at most
// maxKeyLen bytes.
func (h *hasher) sumString(key string) [sha256.Size]byte {
	var buf [maxKeyLen]byte
	return h.sum(buf[:copy(buf[:], key)])
}
