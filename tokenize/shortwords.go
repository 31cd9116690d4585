package tokenize

// shortWords remembers short words that are one token each: most of what
// people write. It belongs to one encoder, so that it stays in the cache of the
// processor that uses it, and needs no synchronisation. An entry is overwritten
// by the next word with the same hash.
type shortWords [shortEntries]shortEntry

type shortEntry struct {
	key  uint64 // the word's bytes
	id   uint32
	size uint32 // bytes of the word; 0: no entry
}

const (
	shortEntries = 1 << 10 // 16 KiB
	shortWord    = 8       // bytes of the longest word
)

// at returns the entry in which a word would be, and the word as a number. The
// word must have 1 to 8 bytes.
func (w *shortWords) at(word string) (*shortEntry, uint64) {
	key := packed(word)
	return &w[(key*0x9E3779B97F4A7C15)>>54], key
}

// packed returns 1 to 8 bytes as a number, with zeros after the end.
func packed(s string) uint64 {
	switch n := len(s); {
	case n >= 4:
		low := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
		t := s[n-4:]
		high := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24
		return low | high<<(8*(n-4))
	default: // the middle byte of three, and the only one of one, come twice or thrice
		return uint64(s[0]) | uint64(s[n/2])<<(8*(n/2)) | uint64(s[n-1])<<(8*(n-1))
	}
}
