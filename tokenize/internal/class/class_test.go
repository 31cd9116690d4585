package class_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/expediterhq/expediter/tokenize/internal/class"
)

func TestOfEveryCodePoint(t *testing.T) {
	raw, err := os.ReadFile("../unicodegen/testdata/classes.json")
	if err != nil {
		t.Fatal(err)
	}
	var ranges map[string][][2]rune
	if err := json.Unmarshal(raw, &ranges); err != nil {
		t.Fatal(err)
	}
	want := make([]class.Set, 0x110000)
	for name, set := range map[string]class.Set{
		"Lu": class.Lu, "Lt": class.Lt, "Lm": class.Lm, "Lo": class.Lo, "Ll": class.Ll,
		"M": class.M, "N": class.N, "P": class.P, "S": class.S, "space": class.Space,
	} {
		for _, r := range ranges[name] {
			for c := r[0]; c <= r[1]; c++ {
				want[c] = set
			}
		}
	}
	for c, set := range want {
		if got := class.Of(rune(c)); got != set {
			t.Errorf("Of(U+%04X) = %b, want %b", c, got, set)
		}
	}
	for _, c := range []rune{-1, 0x110000, 0x7FFFFFFF} {
		if got := class.Of(c); got != 0 {
			t.Errorf("Of(%#x) = %b, want 0", c, got)
		}
	}
}

func TestAt(t *testing.T) {
	tests := []struct {
		text string
		i    int
		want class.Set
		n    int
	}{
		{"aé", 0, class.Ll, 1}, {"aé", 1, class.Ll, 2}, {"中", 0, class.Lo, 3}, {"\U0001F600", 0, class.S, 4},
		{"\u0085", 0, class.Space, 2}, {"\x1c", 0, 0, 1}, {"1", 0, class.N, 1}, {"\u0301", 0, class.M, 2}, {"_", 0, class.P, 1},
	}
	for _, tt := range tests {
		if got, n := class.At(tt.text, tt.i); got != tt.want || n != tt.n {
			t.Errorf("At(%q, %d) = %b, %d, want %b, %d", tt.text, tt.i, got, n, tt.want, tt.n)
		}
	}
}
