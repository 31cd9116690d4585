package redisquota

const slots = 16384

// appendEscaped writes s with letters, digits, '-', '_' and '.' as they are and
// every other byte as %XX. No two strings have the same escape, and it holds
// neither braces nor spaces.
func appendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		if c := s[i]; safe(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

func safe(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// appendKey writes the tenant's key of the given kind, and returns where the hash
// tag in it begins and ends. The tag is never empty, because an empty one would
// not count as a tag.
func appendKey(dst []byte, prefix, tenant string, kind byte) (key []byte, from, to int) {
	dst = append(append(dst, prefix...), '{')
	from = len(dst)
	dst = appendEscaped(append(dst, 't'), tenant)
	to = len(dst)
	return append(dst, '}', ':', kind), from, to
}

// slot is the cluster slot of a hash tag: CRC16 with polynomial 0x1021 and start
// 0 (XMODEM), modulo 16384, as in the Redis cluster specification.
func slot(tag []byte) uint16 {
	var crc uint16
	for _, c := range tag {
		crc = crc<<8 ^ crc16[byte(crc>>8)^c]
	}
	return crc % slots
}

// crc16 is the effect of each byte.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
