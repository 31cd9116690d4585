package redisquota

import "strings"

const slots = 16384

// escape writes s with letters, digits, '-', '_' and '.' as they are and every
// other byte as %XX. No two strings have the same escape, and it holds neither
// braces nor spaces.
func escape(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = safe(s[i])
	}
	if plain {
		return s
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; safe(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

func safe(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// keys returns the tenant's keys and the cluster slot that all of them are in.
// The tag is never empty, because an empty one would not count as a tag.
func keys(prefix, tenant string) ([]string, uint16) {
	tag := "t" + escape(tenant)
	base := prefix + "{" + tag + "}:"
	return []string{base + "h", base + "z"}, slot(tag)
}

// slot is the cluster slot of a hash tag: CRC16 with polynomial 0x1021 and start
// 0 (XMODEM), modulo 16384, as in the Redis cluster specification.
func slot(tag string) uint16 {
	var crc uint16
	for i := 0; i < len(tag); i++ {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slots
}
