package prefix_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/expediterhq/expediter/prefix"
)

func TestAppendBlocksIsAChainOfXXHash64(t *testing.T) {
	tokens := make([]uint32, 1000)
	for i := range tokens {
		tokens[i] = uint32(i) * 2654435761
	}
	for _, size := range []int{1, 2, 16, 32, 63, 64, 65, 128, 129, 784} {
		want := []uint64{7} // what is there stays
		parent := prefix.Seed("", "")
		for i := 0; i+size <= len(tokens); i += size {
			b := binary.LittleEndian.AppendUint64(nil, parent)
			for _, tok := range tokens[i : i+size] {
				b = binary.LittleEndian.AppendUint32(b, tok)
			}
			parent = xxhash.Sum64(b)
			want = append(want, parent)
		}
		got := prefix.AppendBlocks([]uint64{7}, prefix.Seed("", ""), tokens, size)
		if !slices.Equal(got, want) {
			t.Errorf("size %d: AppendBlocks = %x, want %x", size, got, want)
		}
	}
	if got := prefix.AppendBlocks(nil, 0, tokens, 0); got != nil {
		t.Errorf("size 0: AppendBlocks = %x, want none", got)
	}
	if got := prefix.AppendBlocks(nil, 0, tokens[:15], 16); got != nil {
		t.Errorf("less than a block: AppendBlocks = %x, want none", got)
	}
}

// Gateways that share what they know must agree on hashes, whatever their
// version.
func TestHashesAreFixed(t *testing.T) {
	var tokens [32]uint32
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	for _, tt := range []struct {
		adapter, salt string
		seed          uint64
		blocks        [2]uint64
	}{
		{"", "", 0x34c96acdcadb1bbb, [2]uint64{0x3adeedf1bf8cd890, 0xc55ec8aed3709001}},
		{"my-lora", "", 0xf168cfb5f9221225, [2]uint64{0xb45816fc2f0069f0, 0x10245577d2c93f19}},
		{"", "salt-1", 0x2964ee59ffed2305, [2]uint64{0x41740261e23e581b, 0xd015dce0be09fc89}},
	} {
		if got := prefix.Seed(tt.adapter, tt.salt); got != tt.seed {
			t.Errorf("Seed(%q, %q) = %#x, want %#x", tt.adapter, tt.salt, got, tt.seed)
		}
		if got := prefix.AppendBlocks(nil, prefix.Seed(tt.adapter, tt.salt), tokens[:], 16); !slices.Equal(got, tt.blocks[:]) {
			t.Errorf("blocks for (%q, %q) = %#x, want %#x", tt.adapter, tt.salt, got, tt.blocks)
		}
	}
}

func TestSeedsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for _, p := range [][2]string{{"", ""}, {"a", ""}, {"", "a"}, {"ab", ""}, {"a", "b"}, {"", "ab"}, {"b", "a"}} {
		s := prefix.Seed(p[0], p[1])
		if was, ok := seen[s]; ok {
			t.Errorf("Seed%q = Seed%s", p, was)
		}
		seen[s] = fmt.Sprintf("%q", p)
	}
}

func ExampleAppendBlocks() {
	a := prefix.AppendBlocks(nil, prefix.Seed("", ""), []uint32{1, 2, 3, 4, 5}, 2)
	b := prefix.AppendBlocks(nil, prefix.Seed("", ""), []uint32{1, 2, 9, 4, 5}, 2)
	fmt.Println(len(a), a[0] == b[0], a[1] == b[1])
	// Output: 2 true false
}

func ExampleSeed() {
	fmt.Println(prefix.Seed("", "") == prefix.Seed("my-adapter", ""))
	// Output: false
}
