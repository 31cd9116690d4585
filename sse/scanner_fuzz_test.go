package sse_test

import (
	"math/rand/v2"
	"testing"
)

// streamSeeds are streams with every feature of the syntax.
var streamSeeds = []string{
	"", "\n", "\r", "\r\n", ":", ":\n\n", ": ping\ndata: x\n\n", "data: x\n\n", "data:x\n\n", "data:  x\n\n", "data\n\n", "data:\n\n",
	"data: x\r\r", "data: x\r\n\r\n", "data: x\n\r\n", "data: x\r\n\rdata: y\n\n", "data: x\r\r\ndata: y\r\n\r\n", "data: a\r\ndata: b\r\n\r\n",
	"event: e\ndata: x\nid: 7\nretry: 10\n\n", "id\ndata: x\n\n", "id: a\x00b\ndata: x\n\n", "id: 1\nid: 2\x00\ndata\n\n", "id: 1\n\n: ping\n\n\n",
	"\ufeffdata: x\n\n", "\ufeff\ufeffdata: x\n\n", "\ufeff\ufeffdata: x\ndata: y\n\n", ": c\n\n\ufeffdata: x\ndata: y\n\n", "data: x\n\n\ufeffdata: y\n\n", "\xef\xbb", "\xef\xbbdata: x\n\n", "DATA: x\n\n", " data: x\n\n",
	"data : x\n\n", "data: x\ndata\ndata: y\n\n", "data: x", "data: x\n", "data: x\r", ": c", "data: x\n\n: c", "data: x\n\nda", "unknown: x\nno colon\n\n",
	"\n\n\ndata: x\n\n\n\ndata: y\n\n", "data: [DONE]\n\n", "\r\n\r\ndata: x\r\n\r\n\r\n\r\n",
}

func FuzzScanner(f *testing.F) {
	for i, s := range streamSeeds {
		f.Add(s, uint8(i), uint64(i))
	}
	f.Fuzz(func(t *testing.T, stream string, maxSlice uint8, seed uint64) {
		checkStream(t, stream, 1+int(maxSlice), seed)
	})
}

// TestScannerGenerated compares with the reference on long streams of random
// lines, so that events cross the ends of buffers and parts.
func TestScannerGenerated(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 50
	}
	rng := rand.New(rand.NewPCG(4, 5))
	for i := range rounds {
		var b []byte
		ends := []string{"\n", "\r\n", "\r"}
		if i%4 != 0 {
			ends = ends[i%4-1 : i%4]
		}
		for range rng.IntN(60) {
			b = appendLine(b, rng)
			b = append(b, ends[rng.IntN(len(ends))]...)
		}
		checkStream(t, string(b), 1<<rng.IntN(16), uint64(i))
		if t.Failed() {
			return
		}
	}
}

func appendLine(b []byte, rng *rand.Rand) []byte {
	names := []string{"", "", "", "data: ", "data: ", "data:", "event: ", "id: ", ": ", "x"}
	name := names[rng.IntN(len(names))]
	b = append(b, name...)
	if name == "" {
		return b
	}
	for range rng.IntN(1 << rng.IntN(16)) {
		b = append(b, 'a'+byte(rng.IntN(26)))
	}
	return b
}
