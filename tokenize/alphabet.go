package tokenize

import "unicode/utf8"

// byteAlphabet is the alphabet in which byte-level vocabularies write bytes:
// printable Latin-1 characters stand for themselves, the other 68 bytes for
// the characters from U+0100 on.
type byteAlphabet struct {
	bytes [0x144]int16 // by character; -1: not in the alphabet
}

func newByteAlphabet() *byteAlphabet {
	var a byteAlphabet
	for i := range a.bytes {
		a.bytes[i] = -1
	}
	next := 0x100
	for b := range 0x100 {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			a.bytes[b] = int16(b)
			continue
		}
		a.bytes[next] = int16(b)
		next++
	}
	return &a
}

// appendBytes appends the bytes that a token stands for. It reports false, and
// returns dst as it was, where a character is outside the alphabet.
func (a *byteAlphabet) appendBytes(dst, token []byte) ([]byte, bool) {
	before := len(dst)
	for i := 0; i < len(token); {
		if c := token[i]; c >= '!' && c <= '~' {
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(token[i:])
		if int(r) >= len(a.bytes) || a.bytes[r] < 0 {
			return dst[:before], false
		}
		dst = append(dst, byte(a.bytes[r]))
		i += n
	}
	return dst, true
}
