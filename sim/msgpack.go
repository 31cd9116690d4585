package sim

import (
	"encoding/binary"
	"math"
)

// These append MessagePack values; see github.com/msgpack/msgpack/blob/master/spec.md.

func packArray(b []byte, n int) []byte { return packHeader(b, n, 0x90, 16, 0xdc) }

func packMap(b []byte, n int) []byte { return packHeader(b, n, 0x80, 16, 0xde) }

// packHeader writes a length: in the first byte below small, else in 2 or 4 more.
func packHeader(b []byte, n int, fix byte, small int, long byte) []byte {
	switch {
	case n < small:
		return append(b, fix|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, long), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, long+1), uint32(n))
}

func packString(b []byte, s string) []byte {
	if n := len(s); n >= 32 && n < 256 {
		b = append(b, 0xd9, byte(n))
	} else {
		b = packHeader(b, n, 0xa0, 32, 0xda)
	}
	return append(b, s...)
}

func packUint(b []byte, v uint64) []byte {
	switch {
	case v < 1<<7:
		return append(b, byte(v))
	case v < 1<<8:
		return append(b, 0xcc, byte(v))
	case v < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

func packFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
}

func packNil(b []byte) []byte { return append(b, 0xc0) }
