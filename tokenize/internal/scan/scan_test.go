package scan_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/internal/pattern"
	"github.com/expediterhq/expediter/tokenize/internal/scan"
)

var known = []struct{ name, src string }{
	{"GPT2", scan.GPT2}, {"Qwen2", scan.Qwen2}, {"Llama3", scan.Llama3}, {"O200k", scan.O200k},
	{"Tekken", scan.Tekken}, {"Digits", scan.Digits}, {"DigitRuns", scan.DigitRuns},
	{"Digits3", scan.Digits3}, {"CJKRuns", scan.CJKRuns}, {"DeepSeek", scan.DeepSeek},
}

// sample draws text in which the characters that the patterns tell apart are
// common: every category, line breaks, apostrophes, slashes.
func sample(rng *rand.Rand) string {
	const common = "aAzsSdDmMtTrRvVeElL'''   \n\r\t//!.<0123é\u00c9ſǅʰªªا中一龥龦ぁ・゠ヿ㐀\u0300\u093f½Ⅷ٣€§\u00a0\u3000\u0085\u200b\x00\x1c\u2028\U0001F600\U00031350\U0001E08F\u0378"
	pool := []rune(common)
	var s strings.Builder
	for range rng.IntN(30) {
		switch rng.IntN(20) {
		case 0:
			r := rune(rng.IntN(utf8.MaxRune + 1))
			if utf8.ValidRune(r) {
				s.WriteRune(r)
			}
		case 1:
			s.WriteRune(rune(rng.IntN(0x3100)))
		default:
			s.WriteRune(pool[rng.IntN(len(pool))])
		}
	}
	return s.String()
}

func compare(t *testing.T, name string, fast scan.Scanner, slow *pattern.Pattern, text string) {
	t.Helper()
	var m pattern.Machine
	m.Reset(len(text))
	for i := 0; i < len(text); {
		start, end, err := fast.Next(text, i, &m)
		wantStart, wantEnd, slowErr := slow.Next(text, i, &m)
		if err != nil || slowErr != nil {
			t.Fatalf("%s: Next(%+q, %d) failed: %v, %v", name, text, i, err, slowErr)
		}
		if start != wantStart || end != wantEnd {
			t.Fatalf("%s: Next(%+q, %d) = %d, %d, want %d, %d", name, text, i, start, end, wantStart, wantEnd)
		}
		i = end
	}
}

func TestScannersAgreeWithTheGeneralMatcher(t *testing.T) {
	n := 30_000
	if testing.Short() || raceEnabled { // one goroutine: nothing to race with
		n = 3_000
	}
	for i, k := range known {
		t.Run(k.name, func(t *testing.T) {
			fast, err := scan.For(k.src)
			if err != nil {
				t.Fatal(err)
			}
			slow, err := pattern.Compile(k.src)
			if err != nil {
				t.Fatal(err)
			}
			if _, general := fast.(*pattern.Pattern); general {
				t.Fatal("the pattern has no scanner of its own")
			}
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range n {
				compare(t, k.name, fast, slow, sample(rng))
			}
		})
	}
}

func TestForFallsBackToTheGeneralMatcher(t *testing.T) {
	s, err := scan.For(`\p{L}+|\P{L}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.(*pattern.Pattern); !ok {
		t.Errorf("For returned a %T, want the general matcher", s)
	}
	if _, err := scan.For(`\w+`); err == nil {
		t.Error("For accepted a pattern that the general matcher does not support")
	}
}

func FuzzScanners(f *testing.F) {
	f.Add("it's 1234 WORDS/\r\n  and\u0301 \u4e2d\u6587")
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 2000 {
			return
		}
		for _, k := range known {
			fast, err := scan.For(k.src)
			if err != nil {
				t.Fatal(err)
			}
			slow, err := pattern.Compile(k.src)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, k.name, fast, slow, text)
		}
	})
}
