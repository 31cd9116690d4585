package jinja

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomJSON returns a random JSON value as text.
func randomJSON(r *rand.Rand, depth int) string {
	switch n := r.IntN(8); {
	case n < 2 && depth < 3:
		var out strings.Builder
		out.WriteString("[")
		for i := range r.IntN(90 / (1 + 4*depth)) {
			if i > 0 {
				out.WriteString(",")
			}
			out.WriteString(randomJSON(r, depth+1))
		}
		return out.String() + "]"
	case n < 5 && depth < 3:
		var out strings.Builder
		out.WriteString("{")
		for i := range r.IntN(30 / (1 + 2*depth)) {
			if i > 0 {
				out.WriteString(",")
			}
			out.WriteString(fmt.Sprintf("%q:%s", fmt.Sprint("k", r.IntN(25)), randomJSON(r, depth+1)))
		}
		return out.String() + "}"
	case n == 5:
		return fmt.Sprint(r.Int64())
	case n == 6:
		b, _ := json.Marshal(fmt.Sprintf("é\n%d", r.IntN(1000)))
		return string(b)
	}
	return []string{"true", "null", "1.5", `"x"`}[r.IntN(4)]
}

// TestSlab decodes random values into one slab that is reset in between, and
// compares them with values that have memory of their own.
func TestSlab(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s Slab
	for range 100 {
		var got, want []Value
		for range 1 + r.IntN(3) {
			text := []byte(randomJSON(r, 0))
			g, err := s.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			w, err := Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			got, want = append(got, g), append(want, w)
			m := s.NewMap(1) // grows beyond its room
			for i := range 20 {
				m.Set(fmt.Sprint(i), g)
			}
		}
		for i := range got {
			if eq, err := equal(got[i], want[i], 0); !eq || err != nil {
				t.Fatalf("values differ: %v", err)
			}
			a, errA := AppendJSON(nil, got[i])
			b, errB := AppendJSON(nil, want[i])
			if errA != nil || errB != nil || string(a) != string(b) {
				t.Fatalf("text differs: %v, %v", errA, errB)
			}
		}
		s.Reset()
	}
}
