package tokenize_test

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// common holds characters that splitters, normalizers and merges treat
// differently.
const common = "aAzsSdDmMtTrRvVeElL'''   \n\r\t//!.<0123é\u00c9ſǅʰªªا中一龥龦ぁ・゠ヿ\u0300\u0301\u0316\u093f½Ⅷ٣€§" +
	"\u00a0\u3000\u0085\u200b\x00\x1c\u2028\U0001F600\U00031350\U0001E08F\u0378▁▁가각\u1100\u1161\u11a8"

// randomText draws a text of up to about 60 characters: common ones, pieces of
// the samples, runs, and any character at all.
func randomText(rng *rand.Rand, samples []string) string {
	var s strings.Builder
	for range 1 + rng.IntN(5) {
		switch n := rng.IntN(20); {
		case n < 7:
			pool := []rune(common)
			for range 1 + rng.IntN(12) {
				s.WriteRune(pool[rng.IntN(len(pool))])
			}
		case n < 16 && len(samples) > 0:
			sample := samples[rng.IntN(len(samples))]
			if sample == "" {
				continue
			}
			from := rng.IntN(len(sample))
			s.WriteString(strings.ToValidUTF8(sample[from:min(len(sample), from+1+rng.IntN(40))], ""))
		case n < 18:
			pool := []rune(common)
			s.WriteString(strings.Repeat(string(pool[rng.IntN(len(pool))]), 1+rng.IntN(60)))
		default:
			for range 1 + rng.IntN(6) {
				limit := []int{0x250, 0x3100, utf8.MaxRune}[rng.IntN(3)]
				if r := rune(rng.IntN(limit)); utf8.ValidRune(r) {
					s.WriteRune(r)
				}
			}
		}
	}
	return s.String()
}
