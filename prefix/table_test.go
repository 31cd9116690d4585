package prefix_test

import (
	"slices"
	"testing"

	"github.com/expediterhq/expediter/prefix"
)

func TestOverlapCountsLeadingBlocks(t *testing.T) {
	tb := prefix.NewTable(prefix.TableConfig{})
	tokens := make([]uint32, 100)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	blocks := prefix.AppendBlocks(nil, prefix.Seed("", ""), tokens, 16)
	if len(blocks) != 6 {
		t.Fatalf("AppendBlocks gave %d blocks of 100 tokens, want 6 full ones", len(blocks))
	}
	tb.Add(0, blocks[:2])
	tb.Add(70, blocks)
	tb.Add(2, prefix.AppendBlocks(nil, prefix.Seed("adapter", ""), tokens, 16))
	n := make([]int, 72)
	tb.Overlap(n, blocks)
	want := make([]int, 72)
	want[0], want[70] = 2, 6
	if !slices.Equal(n, want) {
		t.Errorf("Overlap = %v, want %v", n, want)
	}
	tb.Forget(70)
	tb.Overlap(n, blocks)
	if n[70] != 0 || n[0] != 2 {
		t.Errorf("after Forget(70): n[70] = %d, n[0] = %d, want 0, 2", n[70], n[0])
	}
}
