package usage

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter"
)

// seenIDs is how many of the latest ids ScanStream remembers. A copy follows
// its original within the records one gateway held back while Redis failed
// it, mixed with those of the other gateways.
const seenIDs = 1 << 20

// StreamScanned says what ScanStream came across.
type StreamScanned struct {
	Records int // given to the function
	Copies  int // entries left out, as a record of the same id was among the last million
	Bad     int // entries that hold no record
}

// ScanStream reads the records of a stream that Redis sinks wrote, oldest
// first, and calls f with each until the end of the stream as it is or until f
// returns an error. Copies of a record are left out. If stream is empty,
// DefaultStream.
func ScanStream(ctx context.Context, client redis.UniversalClient, stream string, f func(expediter.Record) error) (StreamScanned, error) {
	if stream == "" {
		stream = DefaultStream
	}
	var s StreamScanned
	seen := newRecent(seenIDs)
	for from := "-"; ; {
		entries, err := client.XRangeN(ctx, stream, from, "+", 1000).Result()
		if err != nil {
			return s, fmt.Errorf("usage: stream %s: %w", stream, err)
		}
		if len(entries) == 0 {
			return s, nil
		}
		for _, e := range entries {
			text, _ := e.Values["record"].(string)
			rec, err := Parse([]byte(text))
			switch {
			case err != nil:
				s.Bad++
				continue
			case !seen.add(rec.ID):
				s.Copies++
				continue
			}
			s.Records++
			if err := f(rec); err != nil {
				return s, fmt.Errorf("usage: stream %s: entry %s: %w", stream, e.ID, err)
			}
		}
		from = "(" + entries[len(entries)-1].ID
	}
}

// recent remembers the last n distinct strings that were added.
type recent struct {
	ring []string
	next int
	set  map[string]struct{}
}

func newRecent(n int) *recent {
	return &recent{ring: make([]string, n), set: make(map[string]struct{})}
}

// add adds s and reports whether it was new.
func (r *recent) add(s string) bool {
	if _, ok := r.set[s]; ok {
		return false
	}
	if len(r.set) == len(r.ring) {
		delete(r.set, r.ring[r.next])
	}
	r.ring[r.next] = s
	r.next = (r.next + 1) % len(r.ring)
	r.set[s] = struct{}{}
	return true
}
