package tokenize

// ByteEstimate is an approximation of a tokenizer, for pools whose model
// directory is not known: every 4 bytes of text count as one token, and a
// shorter rest counts as one more. The zero value is ready to use.
//
// Its ids are no model's ids. They are a mix of the bytes of each piece, so
// that two texts which share a prefix of 4n bytes share their first n ids.
// That is enough to hash prompt prefixes consistently between gateways; it is
// not enough to match block hashes an engine reports, and its counts are off
// by whatever the true tokenizer's ratio of bytes to tokens differs from 4.
type ByteEstimate struct{}

// estimateBytes is the number of bytes that ByteEstimate calls a token.
const estimateBytes = 4

// Append appends one id per 4 bytes of text. It never fails.
func (ByteEstimate) Append(dst []uint32, text string) ([]uint32, error) {
	for len(text) >= estimateBytes {
		v := uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24
		dst = append(dst, mix32(v))
		text = text[estimateBytes:]
	}
	if len(text) > 0 {
		// The length goes into the top byte, which a rest of at most three
		// bytes leaves free: "a" and "a\x00" get different ids.
		v := uint32(len(text)) << 24
		for i := range len(text) {
			v |= uint32(text[i]) << (8 * i)
		}
		dst = append(dst, mix32(v))
	}
	return dst, nil
}

// Count returns the number of ids that Append would append to an empty slice.
// It never fails.
func (ByteEstimate) Count(text string) (int, error) {
	return (len(text) + estimateBytes - 1) / estimateBytes, nil
}

// mix32 is the finalizer of MurmurHash3: a bijection on 32 bits, so different
// pieces of four bytes never share an id.
func mix32(v uint32) uint32 {
	v ^= v >> 16
	v *= 0x85ebca6b
	v ^= v >> 13
	v *= 0xc2b2ae35
	v ^= v >> 16
	return v
}
