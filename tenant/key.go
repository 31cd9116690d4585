package tenant

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
)

// A key is Prefix, 43 base62 characters (62^43 > 2^256) and six more with the
// CRC-32 of all that precedes them.
const (
	// Prefix starts every key that NewKey makes, so that people and secret
	// scanners recognise one.
	Prefix = "xp-"

	randomChars = 43
	sumChars    = 6
	keyLen      = len(Prefix) + randomChars + sumChars

	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// NewKey makes a key of 256 random bits and returns it with its digest under
// no pepper. The key is for the customer and should be shown once; the digest
// is what a file or a Key holds. Where a pepper is in use, take
// Digest(key, pepper) instead. It fails only if the system has no randomness.
func NewKey() (key, digest string, err error) {
	b := make([]byte, 0, keyLen)
	b = append(b, Prefix...)
	var random [64]byte
	for len(b) < len(Prefix)+randomChars {
		if _, err := io.ReadFull(rand.Reader, random[:]); err != nil {
			return "", "", fmt.Errorf("tenant: new key: %w", err)
		}
		for _, c := range random {
			// 248 is the largest multiple of 62 below 256: what lies above
			// is thrown away, so that every character is equally likely.
			if c < 248 && len(b) < len(Prefix)+randomChars {
				b = append(b, base62[c%62])
			}
		}
	}
	b = appendSum(b, checksum(string(b)))
	return string(b), Digest(string(b), nil), nil
}

// Digest returns the form in which a key is stored: 64 hexadecimal digits of
// SHA-256 or, if pepper is not empty, of HMAC-SHA-256 under the pepper.
func Digest(key string, pepper []byte) string {
	sum := newHasher(pepper).sum([]byte(key))
	return hex.EncodeToString(sum[:])
}

// appendSum appends v as six base62 characters, most significant first.
func appendSum(b []byte, v uint32) []byte {
	var c [sumChars]byte
	for i := sumChars - 1; i >= 0; i-- {
		c[i] = base62[v%62]
		v /= 62
	}
	return append(b, c[:]...)
}

// wellFormed reports whether s has the prefix, length and checksum of a key.
// It depends on nothing that is stored, so its timing tells a guesser nothing
// that is not in this file.
func wellFormed(s string) bool {
	if len(s) != keyLen || s[:len(Prefix)] != Prefix {
		return false
	}
	body, sum := s[:keyLen-sumChars], s[keyLen-sumChars:]
	for i := len(Prefix); i < len(body); i++ {
		if !isBase62(body[i]) {
			return false
		}
	}
	var want [sumChars]byte
	return string(appendSum(want[:0], checksum(body))) == sum
}

// checksum is crc32.ChecksumIEEE for a string: that one takes a slice, which
// it makes the compiler put on the heap.
func checksum(s string) uint32 {
	crc := ^uint32(0)
	for i := range len(s) {
		crc = crc32.IEEETable[byte(crc)^s[i]] ^ crc>>8
	}
	return ^crc
}

func isBase62(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
