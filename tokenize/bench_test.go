package tokenize_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// Reference figures, taken on a 2-core machine for the same texts with the
// Rust crate tokenizers 0.23.2: 2.6 to 5.5 ms for the text of 1,800 tokens, 91
// to 125 ms for the one of 32,000.

func benchText(b *testing.B, category string) string {
	b.Helper()
	for _, text := range goldenTexts(b) {
		if text.Cat == category {
			return text.Text
		}
	}
	b.Fatalf("no text of category %q", category)
	return ""
}

func benchAppend(b *testing.B, t tokenize.Tokenizer, text string) {
	b.Helper()
	dst, err := t.Append(nil, text)
	if err != nil {
		b.Fatal(err)
	}
	tokens := len(dst)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	start := cpuTime()
	for b.Loop() {
		if dst, err = t.Append(dst[:0], text); err != nil {
			b.Fatal(err)
		}
	}
	reportCPU(b, start)
	b.ReportMetric(float64(tokens), "tokens")
}

// reportCPU reports the processor time per run, which other load on the
// machine inflates less than the time on the clock.
func reportCPU(b *testing.B, start time.Duration) {
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
}

// BenchmarkAppend1800 is the promised figure for prompts: at most 0.15 ms.
func BenchmarkAppend1800(b *testing.B) {
	for _, name := range goldenModels {
		b.Run(name, func(b *testing.B) { benchAppend(b, goldenModel(b, name), benchText(b, "doc-1800")) })
	}
}

// BenchmarkAppend1800Cold encodes with an empty word cache: at most 0.3 ms.
func BenchmarkAppend1800Cold(b *testing.B) {
	for _, name := range goldenModels {
		b.Run(name, func(b *testing.B) {
			t, text := goldenModel(b, name), benchText(b, "doc-1800")
			t.Forget()
			if _, err := t.Append(nil, text); err != nil {
				b.Fatal(err)
			}
			used := t.Words()
			benchCold(b, t, text, func() { t.ForgetWords(used) })
		})
	}
}

// BenchmarkAppend1800Flushed is BenchmarkAppend1800Cold after a sweep over the
// whole word cache, 5 MB, which also pushes the model's tables out of the
// nearest caches of the processor, and so is as right after loading.
func BenchmarkAppend1800Flushed(b *testing.B) {
	for _, name := range goldenModels {
		b.Run(name, func(b *testing.B) {
			t := goldenModel(b, name)
			benchCold(b, t, benchText(b, "doc-1800"), t.Forget)
		})
	}
}

// benchCold calls forget before each run. Its time on the clock excludes
// forget; its processor time excludes the switching of the timer as well.
func benchCold(b *testing.B, t *tokenize.BPE, text string, forget func()) {
	dst, err := t.Append(nil, text)
	if err != nil {
		b.Fatal(err)
	}
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		forget()
		b.StartTimer()
		start := cpuTime()
		dst, err = t.Append(dst[:0], text)
		cpu += cpuTime() - start
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(len(dst)), "tokens")
}

// BenchmarkAppend32k is the promised figure for long prompts: at most 6 ms.
func BenchmarkAppend32k(b *testing.B) {
	for _, name := range goldenModels {
		b.Run(name, func(b *testing.B) { benchAppend(b, goldenModel(b, name), benchText(b, "doc-32k")) })
	}
}

// BenchmarkAppendUncut1800 merges a text of 1,800 tokens as one word, as for
// models of which no text can be cut: at most 1 ms.
func BenchmarkAppendUncut1800(b *testing.B) {
	benchAppend(b, goldenModel(b, "mistral_v3").Uncut(), benchText(b, "doc-1800"))
}

// BenchmarkAppendHostile encodes 100 kB made to be expensive: at most 20 ms.
func BenchmarkAppendHostile(b *testing.B) {
	for _, name := range goldenModels {
		for _, h := range hostileTexts() {
			b.Run(name+"/"+h.name, func(b *testing.B) { benchAppend(b, goldenModel(b, name), h.text) })
		}
	}
}

// BenchmarkAppendHostile8MiB encodes the same kinds as the largest request that
// a gateway takes: in full, and with the limit of a context of 131,072 tokens.
func BenchmarkAppendHostile8MiB(b *testing.B) {
	for _, name := range goldenModels {
		for _, h := range hostileTexts() {
			text := strings.Repeat(h.text, 8<<20/len(h.text))
			for _, limit := range []int{0, 131_072} {
				b.Run(fmt.Sprintf("%s/%s/limit=%d", name, h.name, limit), func(b *testing.B) {
					t := goldenModel(b, name)
					var dst []uint32
					b.SetBytes(int64(len(text)))
					start := cpuTime()
					for b.Loop() {
						var over *tokenize.LimitError
						var err error
						if dst, err = t.AppendWith(dst[:0], text, tokenize.Options{MaxTokens: limit}); err != nil && !errors.As(err, &over) {
							b.Fatal(err)
						}
					}
					reportCPU(b, start)
				})
			}
		}
	}
}

// BenchmarkCount1800 counts without keeping ids.
func BenchmarkCount1800(b *testing.B) {
	t, text := goldenModel(b, "qwen3"), benchText(b, "doc-1800")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Count(text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendParallel shows whether callers get in each other's way.
func BenchmarkAppendParallel(b *testing.B) {
	t, text := goldenModel(b, "qwen3"), benchText(b, "doc-1800")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var dst []uint32
		var err error
		for pb.Next() {
			if dst, err = t.Append(dst[:0], text); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkDemo1800 is the bundled tokenizer on a text of its own kind.
func BenchmarkDemo1800(b *testing.B) {
	m, err := tokenize.Load(demo.Files)
	if err != nil {
		b.Fatal(err)
	}
	benchAppend(b, m.Tokenizer(), benchText(b, "doc-1800"))
}

// BenchmarkNewBPE is the promised figure for loading: at most 0.3 s and 40 MB
// for a vocabulary of 150,000 tokens. The heap metric is what the tokenizer
// keeps.
func BenchmarkNewBPE(b *testing.B) {
	for _, name := range goldenModels {
		b.Run(name, func(b *testing.B) {
			data := readGzip(b, filepath.Join(goldenDir(b), "tokenizers", name, "tokenizer.json.gz"))
			var t *tokenize.BPE
			before := heapInUse()
			start := cpuTime()
			for b.Loop() {
				var err error
				if t, err = tokenize.NewBPE(data); err != nil {
					b.Fatal(err)
				}
			}
			reportCPU(b, start)
			b.ReportMetric(float64(heapInUse()-before)/1e6, "heap-MB")
			runtime.KeepAlive(t)
			runtime.KeepAlive(data)
		})
	}
}

// BenchmarkLoad loads a whole packed model folder.
func BenchmarkLoad(b *testing.B) {
	for _, name := range goldenModels {
		b.Run(name, func(b *testing.B) {
			fsys := os.DirFS(filepath.Join(goldenDir(b), "tokenizers", name))
			start := cpuTime()
			for b.Loop() {
				if _, err := tokenize.Load(fsys); err != nil {
					b.Fatal(err)
				}
			}
			reportCPU(b, start)
		})
	}
}

// BenchmarkGunzip is the part of loading a packed file that is not ours.
func BenchmarkGunzip(b *testing.B) {
	packed, err := os.ReadFile(filepath.Join(goldenDir(b), "tokenizers", "qwen3", "tokenizer.json.gz"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		zr, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, zr); err != nil {
			b.Fatal(err)
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

type hostile struct{ name, text string }

// hostileTexts returns texts of 100 kB that are expensive to split, normalize
// or merge.
func hostileTexts() []hostile {
	const size = 100_000
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	rng := newRand(7)
	letters, mixed := make([]byte, size), make([]byte, size)
	for i := range letters {
		letters[i] = byte('a' + rng.IntN(26))
		mixed[i] = "abcdefgh IJKL0123_-/\n'"[rng.IntN(22)]
	}
	var han, marks, runes strings.Builder
	for han.Len() < size {
		han.WriteRune(rune(0x4E00 + rng.IntN(0x5000)))
	}
	marks.WriteByte('e')
	for marks.Len() < size {
		marks.WriteRune(rune(0x300 + rng.IntN(0x60)))
	}
	for runes.Len() < size {
		runes.WriteRune(rune(0x20000 + rng.IntN(0x1000)))
	}
	return []hostile{
		{"one letter", fill("a")},
		{"one capital", fill("A")},
		{"spaces", fill(" ")},
		{"spaces then x", fill(" ") + "x"},
		{"tabs", fill("\t")},
		{"line breaks", fill("\r\n")},
		{"bangs", fill("!")},
		{"slashes", fill("/")},
		{"underscores", fill("_")},
		{"random letters", string(letters)},
		{"random mix", string(mixed)},
		{"random han", han.String()},
		{"rare characters", runes.String()},
		{"one character and marks", marks.String()},
		{"decomposed", fill("e\u0301\u0323")},
		{"hangul letters", fill("\u1112\u1161\u11ab")},
		{"half tokens", fill("<|im_start<|")},
		{"special tokens", fill("<|im_end|>")},
		{"visible spaces", fill("▁")},
		{"digits", fill("1")},
		{"contractions", fill("'s")},
		{"joiners", fill("\u200d")},
		{"family emoji", fill("👨\u200d👩\u200d👧")},
		{"space and letter", fill(" a")},
		{"fibonacci", fibonacci(size)},
	}
}

// fibonacci returns the word in which pairs repeat at every scale.
func fibonacci(size int) string {
	a, b := "a", "ab"
	for len(b) < size {
		a, b = b, b+a
	}
	return b[:size]
}

// BenchmarkCacheConversation encodes a conversation of about 32,000 tokens
// that comes back with one more turn each time, against encoding it afresh.
func BenchmarkCacheConversation(b *testing.B) {
	bpe := goldenModel(b, "qwen3")
	doc, old := benchText(b, "doc-1800"), ""
	turn := func(n int) string { return fmt.Sprintf("<|im_start|>user\nturn %d of %s<|im_end|>\n", n, doc) }
	for n := range 16 {
		old += turn(n)
	}
	n := 16
	run := func(t tokenize.Tokenizer) func(b *testing.B) {
		return func(b *testing.B) {
			var dst []uint32
			var err error
			for range b.N {
				b.StopTimer() // the turn before has come once already
				text := old + turn(n) + turn(n+1)
				n++
				b.StartTimer()
				if dst, err = t.Append(dst[:0], text); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("cached", run(tokenize.NewCache(bpe, 16<<20)))
	b.Run("afresh", run(bpe))
}
