package sse_test

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/sse"
)

// decoded is an event as a reader of the stream sees it.
type decoded struct{ data, typ, id string }

// decodeStream is the algorithm of the HTML standard, 9.2.6, word for word,
// on a stream of which everything is known. It returns the events dispatched
// and what was left at the end that no blank line ended. One thing is put
// on top: an event whose data is empty is returned as well, because a
// Scanner leaves it to the caller to drop it.
func decodeStream(stream string) (events []decoded, unfinished bool) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	stream = strings.ReplaceAll(stream, "\r", "\n")
	lines := strings.Split(stream, "\n")
	last := lines[len(lines)-1]
	var data, typ, id string
	hasData := false
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if hasData {
				events = append(events, decoded{strings.TrimSuffix(data, "\n"), typ, id})
			}
			data, typ, id, hasData, unfinished = "", "", "", false, false
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "":
		case field == "event":
			typ = value
		case field == "data":
			data += value + "\n"
			hasData = true
		case field == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
		unfinished = unfinished || field != ""
	}
	if line := last; line != "" && line[0] != ':' {
		unfinished = true
	}
	return events, unfinished
}

// sliced reads at most a few bytes at a time, the number being chosen anew
// each time, and now and then none.
type sliced struct {
	rest   string
	max    int
	rng    *rand.Rand
	onRead func(rest string) // called first
}

func (s *sliced) Read(p []byte) (int, error) {
	if s.onRead != nil {
		s.onRead(s.rest)
	}
	if s.rest == "" {
		return 0, io.EOF
	}
	n := min(len(p), s.rng.IntN(s.max+1), len(s.rest))
	copy(p, s.rest[:n])
	s.rest = s.rest[n:]
	if s.rest == "" && s.rng.IntN(2) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// checkStream compares a Scanner with decodeStream: the events, that each is
// returned before more is read, that what is relayed decodes to the same,
// and that it is byte for byte the same where that can be.
func checkStream(t *testing.T, stream string, maxSlice int, seed uint64) {
	t.Helper()
	want, unfinished := decodeStream(stream)
	var all, relayed strings.Builder
	var events []decoded
	src := &sliced{rest: stream, max: maxSlice, rng: rand.New(rand.NewPCG(seed, 0))}
	if len(stream) < 128 {
		src.onRead = func(rest string) {
			if due, _ := decodeStream(strings.TrimSuffix(stream, rest)); len(due) > len(events) {
				t.Errorf("stream %q: with %d bytes to come %d events were returned, want %d", stream, len(rest), len(events), len(due))
			}
		}
	}
	s := sse.NewScanner(src, sse.ScannerConfig{})
	var err error
	for {
		buffered := s.Buffered()
		before := src.rest
		var ev sse.Event
		if ev, err = s.Next(); err != nil {
			break
		}
		if buffered && src.rest != before {
			t.Errorf("stream %q: Buffered, but Next has read", stream)
		}
		all.Write(ev.Raw)
		if !ev.Comment {
			events = append(events, decoded{string(ev.Data), ev.Type, string(ev.ID)})
		} else if !ev.Empty() {
			t.Errorf("stream %q: a comment with data %q", stream, ev.Data)
		}
		if !ev.Empty() {
			relayed.Write(ev.Raw)
		}
	}
	if unfinished != (err == sse.ErrTruncated) || !unfinished && err != io.EOF {
		t.Errorf("stream %q ends with %v, unfinished = %v", stream, err, unfinished)
	}
	diff(t, "scanned", stream, events, want)
	again, _ := decodeStream(relayed.String())
	diff(t, "relayed", stream, again, notEmpty(want))
	checkRaw(t, stream, all.String())
}

// checkRaw fails unless the events' bytes are the stream's, as far as it has
// whole events, if its line ends are all alike.
func checkRaw(t *testing.T, stream, raw string) {
	t.Helper()
	stream = strings.TrimPrefix(stream, "\ufeff")
	lf, cr, crlf := strings.Count(stream, "\n"), strings.Count(stream, "\r"), strings.Count(stream, "\r\n")
	alike := lf == 0 || cr == 0 || lf == crlf && cr == crlf
	if !alike || strings.HasPrefix(stream, "\r\n") || strings.Contains(stream, "\ufeff") { // lines with a mark are left out
		return
	}
	if rest, ok := strings.CutPrefix(stream, raw); !ok {
		t.Errorf("of stream %q the bytes returned are %q", stream, raw)
	} else if left, _ := decodeStream(rest); len(left) > 0 {
		t.Errorf("of stream %q these bytes were not returned: %q", stream, rest)
	}
}

func notEmpty(events []decoded) []decoded {
	var some []decoded
	for _, ev := range events {
		if ev.data != "" {
			some = append(some, ev)
		}
	}
	return some
}

func diff(t *testing.T, what, stream string, got, want []decoded) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: of stream %q %d events %+v, want %d %+v", what, stream, len(got), got, len(want), want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: of stream %q event %d is %+v, want %+v", what, stream, i, got[i], want[i])
		}
	}
}
