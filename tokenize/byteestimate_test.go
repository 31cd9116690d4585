package tokenize_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tokenize"
)

func TestByteEstimateCounts(t *testing.T) {
	tests := []struct {
		text string
		want int
	}{
		{"", 0}, {"a", 1}, {"abcd", 1}, {"abcde", 2}, {"é€", 2}, {strings.Repeat("x", 4001), 1001},
	}
	for _, tt := range tests {
		ids, err := tokenize.ByteEstimate{}.Append(nil, tt.text)
		if err != nil || len(ids) != tt.want {
			t.Errorf("Append(%q) gave %d ids, error %v, want %d ids", tt.text, len(ids), err, tt.want)
		}
		if n, err := (tokenize.ByteEstimate{}).Count(tt.text); n != tt.want || err != nil {
			t.Errorf("Count(%q) = %d, %v, want %d", tt.text, n, err, tt.want)
		}
	}
}

func TestByteEstimateSharesPrefixes(t *testing.T) {
	var est tokenize.ByteEstimate
	a, _ := est.Append(nil, "you are helpful.hello")
	b, _ := est.Append([]uint32{7}, "you are helpful.goodbye")
	if b[0] != 7 {
		t.Fatalf("Append changed the ids already in dst: %v", b)
	}
	b = b[1:]
	if !slices.Equal(a[:4], b[:4]) {
		t.Errorf("ids of a shared 16-byte prefix differ: %v and %v", a[:4], b[:4])
	}
	if a[4] == b[4] {
		t.Errorf("pieces %q and %q share id %d", "hell", "good", a[4])
	}
}

func TestByteEstimateTellsRestsApart(t *testing.T) {
	seen := map[uint32]string{}
	for _, text := range []string{"a", "a\x00", "a\x00\x00", "a\x00\x00\x00", "b", "ab", "abc", "abcd"} {
		ids, _ := tokenize.ByteEstimate{}.Append(nil, text)
		if other, ok := seen[ids[0]]; ok {
			t.Errorf("%q and %q share id %d", text, other, ids[0])
		}
		seen[ids[0]] = text
	}
}

func TestByteEstimateDoesNotAllocate(t *testing.T) {
	text := strings.Repeat("some words ", 100)
	dst := make([]uint32, 0, len(text))
	if n := testing.AllocsPerRun(100, func() { dst, _ = tokenize.ByteEstimate{}.Append(dst[:0], text) }); n != 0 {
		t.Errorf("Append allocates %v times per run", n)
	}
}
