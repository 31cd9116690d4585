package pattern_test

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tokenize/internal/pattern"
)

// randomPattern draws a pattern that package regexp knows as well.
func randomPattern(rng *rand.Rand, depth int) string {
	var s strings.Builder
	for i := range 1 + rng.IntN(3) {
		if i > 0 && rng.IntN(3) == 0 {
			s.WriteByte('|')
		}
		if depth > 0 && rng.IntN(3) == 0 {
			s.WriteString("(?:" + randomPattern(rng, depth-1) + ")")
		} else {
			s.WriteString([]string{"a", "b", "é", "[ab]", "[^a]", "[^bé]", `\p{L}`, "(?i:b)", "."}[rng.IntN(9)])
		}
		s.WriteString([]string{"", "", "", "*", "+", "?", "+?", "*?", "{1,2}", "{2}", "{2,}"}[rng.IntN(11)])
	}
	return s.String()
}

// matches returns all matches.
func matches(src, text string) ([]string, error) {
	p, err := pattern.Compile(src)
	if err != nil {
		return nil, err
	}
	var m pattern.Machine
	m.Reset(len(text))
	var out []string
	for i := 0; i < len(text); {
		start, end, err := p.Next(text, i, &m)
		if err != nil {
			return nil, err
		}
		if end > start {
			out = append(out, text[start:end])
		}
		i = end
	}
	return out, nil
}

func TestNextAgreesWithRegexp(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	rounds, compared := 20_000, 0
	if raceEnabled { // one goroutine: nothing to race with
		rounds /= 20
	}
	for range rounds {
		src := randomPattern(rng, 2)
		re, err := regexp.Compile(src)
		if err != nil {
			t.Fatalf("regexp: %v", err)
		}
		if re.MatchString("") {
			continue
		}
		if _, err := pattern.Compile(src); err != nil {
			continue
		}
		compared++
		for range 5 {
			var text strings.Builder
			for range rng.IntN(12) {
				text.WriteString([]string{"a", "b", "é", "B", "\n", "1"}[rng.IntN(6)])
			}
			got, err := matches(src, text.String())
			if errors.Is(err, pattern.ErrTooComplex) {
				continue // repetitions inside repetitions
			}
			if want := re.FindAllString(text.String(), -1); err != nil || !slices.Equal(got, want) {
				t.Fatalf("matches of %q in %q = %q, %v, want %q", src, text.String(), got, err, want)
			}
		}
	}
	if compared < rounds/7 {
		t.Errorf("only %d patterns compared", compared)
	}
}
