package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// hasher computes vLLM's own block hashes with its default algorithm: SHA-256
// over Python's pickle (protocol 5) of the tuple (hash of the block before,
// token ids, extra keys or None). The block before the first is the hash of a
// fixed string.
type hasher struct {
	buf  bytes.Buffer
	body []byte
}

// noneHash stands for the block before the first one.
func noneHash() [32]byte {
	var h hasher
	h.body = appendPickledString(h.body, "vllm-none-hash")
	return h.sum()
}

// block returns the hash of one full block. Extra holds the adapter's name, in
// every block, and the cache salt, in the first one; either may be missing.
func (h *hasher) block(parent [32]byte, ids []uint32, extra ...string) [32]byte {
	h.body = append(h.body[:0], 'C', 32)
	h.body = append(h.body, parent[:]...)
	h.body = append(h.body, memoize)
	h.tuple(len(ids), func() {
		for _, id := range ids {
			h.body = appendPickledInt(h.body, id)
		}
	})
	if len(extra) == 0 {
		h.body = append(h.body, 'N')
	} else {
		h.tuple(len(extra), func() {
			for _, s := range extra {
				h.body = appendPickledString(h.body, s)
			}
		})
	}
	h.body = append(h.body, 0x87, memoize) // a tuple of three
	return h.sum()
}

const memoize = 0x94

// tuple pickles a tuple of n items: up to three have opcodes of their own.
func (h *hasher) tuple(n int, items func()) {
	if n > 3 {
		h.body = append(h.body, '(')
		items()
		h.body = append(h.body, 't', memoize)
		return
	}
	items()
	h.body = append(h.body, byte(0x84+n), memoize)
}

func (h *hasher) sum() [32]byte {
	h.body = append(h.body, '.')
	h.buf.Reset()
	h.buf.Write([]byte{0x80, 5, 0x95})
	h.buf.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(h.body))))
	h.buf.Write(h.body)
	return sha256.Sum256(h.buf.Bytes())
}

func appendPickledInt(b []byte, v uint32) []byte {
	switch {
	case v < 1<<8:
		return append(b, 'K', byte(v))
	case v < 1<<16:
		return append(b, 'M', byte(v), byte(v>>8))
	}
	return binary.LittleEndian.AppendUint32(append(b, 'J'), v)
}

func appendPickledString(b []byte, s string) []byte {
	if len(s) < 256 {
		b = append(b, 0x8c, byte(len(s)))
	} else {
		b = binary.LittleEndian.AppendUint32(append(b, 'X'), uint32(len(s)))
	}
	return append(append(b, s...), memoize)
}

// BlockHashes appends the hashes that a vLLM replica gives to the full blocks
// of ids, as its KV events carry them: the last 8 bytes of each digest. Adapter
// and salt are empty if there is none.
func BlockHashes(dst []uint64, adapter, salt string, ids []uint32, size int) []uint64 {
	var h hasher
	parent := noneHash()
	for first := true; len(ids) >= size; first = false {
		var extra []string
		if adapter != "" {
			extra = append(extra, adapter)
		}
		if salt != "" && first {
			extra = append(extra, salt)
		}
		parent = h.block(parent, ids[:size], extra...)
		dst = append(dst, binary.BigEndian.Uint64(parent[24:]))
		ids = ids[size:]
	}
	return dst
}
