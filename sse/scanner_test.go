package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/expediterhq/expediter/sse"
)

// got is an event copied out of the Scanner's memory.
type got struct {
	raw, data, typ, id string
	comment            bool
}

// scan returns all events of r and the error that ended them.
func scan(r io.Reader, cfg sse.ScannerConfig) ([]got, error) {
	s := sse.NewScanner(r, cfg)
	var all []got
	for {
		ev, err := s.Next()
		if err != nil {
			return all, err
		}
		all = append(all, got{string(ev.Raw), string(ev.Data), ev.Type, string(ev.ID), ev.Comment})
	}
}

// answer is a stream of n deltas in the engine's shape, with characters of
// one to four bytes, then usage and the end mark.
func answer(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `data: {"id":"cmpl-1","choices":[{"index":0,"delta":{"content":"%d é 日本 😀"},"finish_reason":null}]}`+"\n\n", i)
	}
	b.WriteString(`data: {"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":200}}` + "\n\n")
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}

func TestScanner(t *testing.T) {
	ev := func(raw, data string) got { return got{raw: raw, data: data} }
	tests := []struct {
		name string
		in   string
		want []got
		err  error
	}{
		{"empty", "", nil, io.EOF},
		{"one", "data: x\n\n", []got{ev("data: x\n\n", "x")}, io.EOF},
		{"two", "data: x\n\ndata: y\n\n", []got{ev("data: x\n\n", "x"), ev("data: y\n\n", "y")}, io.EOF},
		{"A2 CRLF", "data: x\r\n\r\ndata: y\r\n\r\n", []got{ev("data: x\r\n\r\n", "x"), ev("data: y\r\n\r\n", "y")}, io.EOF},
		{"A2 CRLF and LF", "data: x\r\n\ndata: y\n\n", []got{ev("data: x\r\n\n", "x"), ev("data: y\n\n", "y")}, io.EOF},
		{"CR", "data: x\r\rdata: y\r\r", []got{ev("data: x\r\r", "x"), ev("data: y\r\r", "y")}, io.EOF},
		{"A10 no space", "data:{\"a\":1}\n\n", []got{ev("data:{\"a\":1}\n\n", `{"a":1}`)}, io.EOF},
		{"A10 one space only", "data:  x\n\n", []got{ev("data:  x\n\n", " x")}, io.EOF},
		{"A10 three lines", "data: {\ndata:\"a\":\ndata: 1}\n\n", []got{ev("data: {\ndata:\"a\":\ndata: 1}\n\n", "{\n\"a\":\n1}")}, io.EOF},
		{"A10 all fields", "event: e\nid: 7\nretry: 10\nx: y\nz\ndata: x\n\n", []got{
			{raw: "event: e\nid: 7\nretry: 10\nx: y\nz\ndata: x\n\n", data: "x", typ: "e", id: "7"}}, io.EOF},
		{"A10 no colon", "data\n\n", []got{ev("data\n\n", "")}, io.EOF},
		{"A7 comment alone", ": ping\n\ndata: x\n\n", []got{{raw: ": ping\n\n", comment: true}, ev("data: x\n\n", "x")}, io.EOF},
		{"A7 comment in a block", ": ping\ndata: x\n\n", []got{ev(": ping\ndata: x\n\n", "x")}, io.EOF},
		{"A7 blank lines", "\n\ndata: x\n\n", []got{{raw: "\n", comment: true}, {raw: "\n", comment: true}, ev("data: x\n\n", "x")}, io.EOF},
		{"A7 id alone", "id: 3\n\n", []got{{raw: "id: 3\n\n", id: "3", comment: true}}, io.EOF},
		{"byte order mark", "\ufeffdata: x\n\n", []got{ev("data: x\n\n", "x")}, io.EOF},
		{"truncated", "data: x\n\ndata: y\n", []got{ev("data: x\n\n", "x")}, sse.ErrTruncated},
		{"truncated in a name", "data: x\n\nda", []got{ev("data: x\n\n", "x")}, sse.ErrTruncated},
		{"comment at the end", "data: x\n\n: y\n", []got{ev("data: x\n\n", "x")}, io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{
				strings.NewReader(tt.in),
				iotest.OneByteReader(strings.NewReader(tt.in)),
				iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				all, err := scan(r, sse.ScannerConfig{})
				if !errors.Is(err, tt.err) {
					t.Errorf("error = %v, want %v", err, tt.err)
				}
				if len(all) != len(tt.want) {
					t.Fatalf("%d events, want %d: %+v", len(all), len(tt.want), all)
				}
				for i, ev := range all {
					if ev != tt.want[i] {
						t.Errorf("event %d = %+v, want %+v", i, ev, tt.want[i])
					}
				}
			}
		})
	}
}

func TestScannerSeeds(t *testing.T) {
	for i, s := range streamSeeds {
		for _, slice := range []int{1, 2, 3, 7, 1000} {
			checkStream(t, s, slice, uint64(i))
		}
	}
}

func TestA1SlicedAnswer(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		stream := strings.ReplaceAll(answer(50), "\n", end)
		for slice := 1; slice <= 7; slice++ {
			checkStream(t, stream, slice, uint64(slice))
		}
	}
}

// TestA3CRAndLFInTwoReads has the two halves of line ends in different reads,
// inside an event and at its end.
func TestA3CRAndLFInTwoReads(t *testing.T) {
	parts := []string{"data: {\"choices\":[],\r", "\ndata: \"x\":1}\r\n\r", "\ndata: y\r\n\r\n"}
	readers := make([]io.Reader, len(parts))
	for i, p := range parts {
		readers[i] = strings.NewReader(p)
	}
	all, err := scan(io.MultiReader(readers...), sse.ScannerConfig{})
	want := []got{
		{raw: "data: {\"choices\":[],\r\ndata: \"x\":1}\r\n\r\n", data: "{\"choices\":[],\n\"x\":1}"},
		{raw: "data: y\r\n\r\n", data: "y"},
	}
	if err != io.EOF || len(all) != 2 || all[0] != want[0] || all[1] != want[1] {
		t.Errorf("events %+v, %v, want %+v", all, err, want)
	}
}

// allocated returns the bytes that f allocates in all.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

func TestA5LongLines(t *testing.T) {
	for _, size := range []int{70 << 10, 1<<20 + 1, 4 << 20, 16e6} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			line := strings.Repeat("x", size)
			r := io.MultiReader(strings.NewReader("data: "), strings.NewReader(line), strings.NewReader("\n\n"), strings.NewReader(answer(3)))
			s := sse.NewScanner(r, sse.ScannerConfig{})
			var ev sse.Event
			var err error
			used := allocated(func() { ev, err = s.Next() })
			if err != nil || string(ev.Data) != line || len(ev.Raw) != size+len("data: \n\n") {
				t.Fatalf("Next = %d bytes of data, %d raw, %v", len(ev.Data), len(ev.Raw), err)
			}
			// Counted with all that was thrown away on the way.
			if limit := 2*size + size/256 + 64<<10; used > limit {
				t.Errorf("allocated %d bytes in all, want at most %d", used, limit)
			}
			for i := range 5 {
				if ev, err = s.Next(); err != nil || len(ev.Data) == 0 {
					t.Errorf("event %d after it: %q, %v", i, ev.Data, err)
				}
			}
			if _, err = s.Next(); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

// TestScannerAtBufferEnds has events whose line ends fall on and around the
// places where the buffer is full.
func TestScannerAtBufferEnds(t *testing.T) {
	for _, full := range []int{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 24 << 10} {
		for size := full - 12; size < full+4; size++ {
			data := strings.Repeat("x", size)
			for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r", "\n: c\n\n"} {
				raw := "data: " + data + end
				head, tail := raw[:size-20], raw[size-20:]
				all, err := scan(io.MultiReader(
					strings.NewReader(head), iotest.OneByteReader(strings.NewReader(tail)),
					strings.NewReader(head), iotest.OneByteReader(strings.NewReader(tail))), sse.ScannerConfig{})
				if want := (got{raw: raw, data: data}); err != io.EOF || len(all) != 2 || all[0] != want || all[1] != want {
					t.Fatalf("%d bytes and %q: %d events, %v", size, end, len(all), err)
				}
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	for _, size := range []int{100, 5000, 40000} {
		fits := "data: " + strings.Repeat("x", size-len("data: \n\n")) + "\n\n"
		for _, stream := range []string{"data: x\n\n" + fits + "x" + fits, "data: x\n\n" + fits + "x" + strings.Repeat("y", 10*size), fits + "data: x\n\n" + strings.Repeat("data: x\n", size)} {
			s := sse.NewScanner(strings.NewReader(stream), sse.ScannerConfig{MaxEvent: size})
			for range 2 {
				if _, err := s.Next(); err != nil {
					t.Fatalf("event within %d bytes: %v", size, err)
				}
			}
			for range 2 {
				_, err := s.Next()
				var large *sse.TooLargeError
				if !errors.As(err, &large) || large.Limit != size {
					t.Errorf("event above %d bytes: %v", size, err)
				}
			}
		}
	}
}

func TestScannerReadError(t *testing.T) {
	cause := errors.New("connection reset")
	for _, tt := range []struct {
		name, in  string
		truncated bool
	}{{"between events", "data: x\n\n", false}, {"C2 in an event", "data: x\n\ndata: y", true}} {
		t.Run(tt.name, func(t *testing.T) {
			s := sse.NewScanner(io.MultiReader(strings.NewReader(tt.in), iotest.ErrReader(cause)), sse.ScannerConfig{})
			if ev, err := s.Next(); err != nil || string(ev.Data) != "x" {
				t.Fatalf("Next = %q, %v", ev.Data, err)
			}
			for range 2 {
				_, err := s.Next()
				if !errors.Is(err, cause) || errors.Is(err, sse.ErrTruncated) != tt.truncated {
					t.Errorf("Next = %v, want the cause, truncated = %v", err, tt.truncated)
				}
			}
		})
	}
}

// stuck returns neither bytes nor an error.
type stuck struct{ n int }

func (s *stuck) Read([]byte) (int, error) { return s.n, nil }

func TestScannerBadReaders(t *testing.T) {
	s := sse.NewScanner(&stuck{}, sse.ScannerConfig{})
	if _, err := s.Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("reader that is stuck: %v", err)
	}
	for _, n := range []int{-1, 1 << 20} {
		s.Reset(&stuck{n})
		if _, err := s.Next(); err == nil {
			t.Errorf("reader that returns %d: no error", n)
		}
	}
}

func TestScannerReset(t *testing.T) {
	s := sse.NewScanner(strings.NewReader("data: half\r"), sse.ScannerConfig{})
	if _, err := s.Next(); err != sse.ErrTruncated {
		t.Fatalf("Next = %v", err)
	}
	s.Reset(strings.NewReader("\ufeffdata: x\n\n"))
	if ev, err := s.Next(); err != nil || string(ev.Data) != "x" {
		t.Errorf("after Reset: %q, %v", ev.Data, err)
	}
	if _, err := s.Next(); err != io.EOF {
		t.Errorf("after Reset, at the end: %v", err)
	}
}

// loop reads the same text again and again, a piece at a time.
type loop struct {
	pieces []string
	next   int
	rest   string
}

func (l *loop) Read(p []byte) (int, error) {
	if l.rest == "" {
		l.rest = l.pieces[l.next]
		l.next = (l.next + 1) % len(l.pieces)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func TestScannerAllocations(t *testing.T) {
	event := "data: " + strings.Repeat("x", 240) + "\n\n"
	for _, tt := range []struct {
		name   string
		pieces []string
	}{
		{"one event in a read", []string{event}},
		{"events across reads", []string{event[:100], event[100:] + event[:7], event[7:] + event}},
		{"several lines", []string{"event: e\nid: 1\ndata: a\ndata: b\n\n"}},
		{"12 KiB events", []string{"data: " + strings.Repeat("x", 3000), strings.Repeat("x", 3000), strings.Repeat("x", 3000), strings.Repeat("x", 3000) + "\n\n"}},
	} {
		s := sse.NewScanner(&loop{pieces: tt.pieces}, sse.ScannerConfig{})
		next := func() {
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			next()
		}
		if n := testing.AllocsPerRun(200, next); n != 0 {
			t.Errorf("%s: %v allocations per event", tt.name, n)
		}
	}
}

// room notes how much a Scanner offers to read into.
type room struct {
	r    io.Reader
	last int
}

func (r *room) Read(p []byte) (int, error) {
	r.last = len(p)
	return r.r.Read(p)
}

func TestScannerBufferShrinks(t *testing.T) {
	big := "data: " + strings.Repeat("x", 10000) + "\n\n"
	src := &room{r: iotest.OneByteReader(strings.NewReader(big + strings.Repeat("data: x\n\n", 100)))}
	s := sse.NewScanner(src, sse.ScannerConfig{})
	sizes := map[bool]int{}
	for i := 0; ; i++ {
		if _, err := s.Next(); err != nil {
			break
		}
		sizes[i < 50] = max(sizes[i < 50], src.last)
		if i == 50 || i == 80 {
			sizes[false] = 0
		}
	}
	if sizes[true] < 5000 || sizes[false] > 4096 {
		t.Errorf("room to read: %d bytes after a big event, %d after many small ones", sizes[true], sizes[false])
	}
}

// TestScannerHostileLines has the shapes that would make a careless scanner
// take quadratic time, which is minutes here.
func TestScannerHostileLines(t *testing.T) {
	const size = 4 << 20
	for _, unit := range []string{"\r", "\n", "a\r", "data\r", "data\n", "data:\r\n", ":\r"} {
		stream := bytes.Repeat([]byte(unit), size/len(unit))
		_, err := scanCount(bytes.NewReader(stream))
		if err != io.EOF && err != sse.ErrTruncated {
			t.Errorf("%q repeated: %v", unit, err)
		}
	}
}

func scanCount(r io.Reader) (n int, err error) {
	s := sse.NewScanner(r, sse.ScannerConfig{})
	for ; err == nil; n++ {
		_, err = s.Next()
	}
	return n, err
}
