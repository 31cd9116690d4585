package sse_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/sse"
)

// delivery keeps what a client has: bytes count once they are flushed.
type delivery struct {
	header           http.Header
	written, flushed []byte
}

func (d *delivery) Header() http.Header { return d.header }
func (d *delivery) WriteHeader(int)     {}
func (d *delivery) Write(p []byte) (int, error) {
	d.written = append(d.written, p...)
	return len(p), nil
}

func (d *delivery) FlushError() error {
	d.flushed = d.written
	return nil
}

// FuzzRelay checks that, whenever the relay turns to its source for more, the
// client has every event that is complete by then, and no half one.
func FuzzRelay(f *testing.F) {
	for i, s := range streamSeeds {
		f.Add(s, uint8(i), uint64(i))
	}
	f.Add(answer(3), uint8(20), uint64(1))
	f.Fuzz(func(t *testing.T, stream string, maxSlice uint8, seed uint64) {
		checkRelay(t, stream, 1+int(maxSlice), seed)
	})
}

func TestRelaySeeds(t *testing.T) {
	for i, s := range append(streamSeeds, answer(3)) {
		for _, slice := range []int{1, 2, 5, 30} {
			checkRelay(t, s, slice, uint64(i))
		}
	}
}

func checkRelay(t *testing.T, stream string, maxSlice int, seed uint64) {
	t.Helper()
	client := &delivery{}
	whole := func(rest string) {
		due, _ := decodeStream(strings.TrimSuffix(stream, rest))
		has, half := decodeStream(string(client.flushed))
		diff(t, "delivered", stream, has, notEmpty(due))
		if half || len(client.flushed) < len(client.written) {
			t.Errorf("stream %q: %q was flushed of %q", stream, client.flushed, client.written)
		}
	}
	src := &sliced{rest: stream, max: maxSlice, rng: rand.New(rand.NewPCG(seed, 0))}
	if len(stream) < 512 {
		src.onRead = whole
	}
	err := (&sse.Relay{}).Copy(newWriter(t, client, sse.WriterConfig{}), src)
	if _, unfinished := decodeStream(stream); unfinished != (err != nil) {
		t.Errorf("stream %q: Copy = %v, unfinished = %v", stream, err, unfinished)
	}
	whole("")
}
