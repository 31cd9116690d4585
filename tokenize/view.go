package tokenize

import "unsafe"

// This is the only file of the package that uses unsafe.

// view returns the bytes of b as a string without copying. The string is valid
// until b is written to. Texts in scratch buffers are read through it and not
// referred to once the call is over; the bytes of a vocabulary are complete
// before they are viewed and never written to again.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Sizes for estimates of memory.
const (
	symbolSize = int(unsafe.Sizeof(symbol{}))
	bucketSize = int(unsafe.Sizeof(bucket{}))
	cachedSize = int(unsafe.Sizeof(cached{}) + unsafe.Sizeof(cachedBlocks{}))
)
