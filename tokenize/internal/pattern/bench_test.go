package pattern_test

import (
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tokenize/internal/pattern"
)

// BenchmarkNext splits text with a pattern of the usual kind.
func BenchmarkNext(b *testing.B) {
	p, err := pattern.Compile(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`)
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("The server's 1234 connections,  \"idle\" since été;\n\n\tare closed.  ", 100)
	var m pattern.Machine
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		m.Reset(len(text))
		for i := 0; i < len(text); {
			_, end, err := p.Next(text, i, &m)
			if err != nil {
				b.Fatal(err)
			}
			i = end
		}
	}
}
