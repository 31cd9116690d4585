package sse_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/expediterhq/expediter/sse"
)

func newBufReader(r io.Reader) *bufio.Reader { return bufio.NewReader(r) }

// relayed sends a stream through a replica, a gateway and a client, all on
// sockets, and returns what the client reads.
func relayed(t *testing.T, proto string, relay *sse.Relay, stream func(write func(string))) string {
	t.Helper()
	result := make(chan error, 1)
	get := serve(t, proto, forward(t, relay, replica(t, stream), result))
	body, err := io.ReadAll(get().Body)
	if err != nil {
		t.Errorf("client: %v", err)
	}
	if err := <-result; err != nil {
		t.Errorf("Copy: %v", err)
	}
	return string(body)
}

// cuts sends a stream in pieces.
func cuts(stream string, size func() int) func(func(string)) {
	return func(write func(string)) {
		for rest := stream; rest != ""; {
			n := min(size(), len(rest))
			write(rest[:n])
			rest = rest[n:]
		}
	}
}

func TestA1SplitAtEveryByte(t *testing.T) {
	stream := answer(200)
	for _, proto := range protocols {
		rng := rand.New(rand.NewPCG(1, 1))
		for name, send := range map[string]func(func(string)){
			"one byte":  cuts(stream, func() int { return 1 }),
			"1-7 bytes": cuts(stream, func() int { return 1 + rng.IntN(7) }),
			"between the newlines": func(write func(string)) {
				for _, s := range strings.SplitAfter(stream, "\n") {
					write(s)
				}
			},
			"in the name": func(write func(string)) {
				for _, s := range strings.SplitAfter(stream, "da") {
					write(s)
				}
			},
		} {
			t.Run(proto+" "+name, func(t *testing.T) {
				if got := relayed(t, proto, &sse.Relay{}, send); got != stream {
					t.Errorf("%d bytes, not the same as the %d sent", len(got), len(stream))
				}
			})
		}
	}
}

func TestA2CRLF(t *testing.T) {
	stream := strings.ReplaceAll(answer(200), "\n", "\r\n")
	mixed := strings.ReplaceAll(answer(200), "}\n\n", "}\r\n\n")
	for _, s := range []string{stream, mixed} {
		for size := 1; size <= 64; size *= 4 {
			if got := relayed(t, "HTTP/1.1", &sse.Relay{}, cuts(s, func() int { return size })); got != s {
				t.Errorf("in pieces of %d: %d bytes, not the same as the %d sent", size, len(got), len(s))
			}
		}
	}
}

func TestA5LongLinesRelayed(t *testing.T) {
	var b strings.Builder
	for _, size := range []int{70 << 10, 1<<20 + 1, 4 << 20} {
		b.WriteString("data: " + strings.Repeat("y", size) + "\n\n" + answer(5))
	}
	for _, proto := range protocols {
		if got := relayed(t, proto, &sse.Relay{}, func(write func(string)) { write(b.String()) }); got != b.String() {
			t.Errorf("%s: %d bytes, not the same as the %d sent", proto, len(got), b.Len())
		}
	}
}

// TestA7CommentsAndBlankLines has a client that dispatches an event at every
// blank line, whether it has data or not.
func TestA7CommentsAndBlankLines(t *testing.T) {
	const stream = ": ping\n: ping\n\n\n\ndata: 1\nid: 7\n\n: ping\n\n\ndata: 2\n\n\r\n: ping\ndata: 3\n\nid: 8\n\ndata:\n\ndata\n\ndata: 4\n\n: end\n"
	for _, size := range []int{1, 5, 1000} {
		got := relayed(t, "HTTP/1.1", &sse.Relay{}, cuts(stream, func() int { return size }))
		var data []string
		for block := range strings.SplitSeq(strings.TrimSuffix(got, "\n\n"), "\n\n") {
			var last string
			for line := range strings.SplitSeq(block, "\n") {
				if v, ok := strings.CutPrefix(line, "data: "); ok {
					last = v
				}
			}
			data = append(data, last)
		}
		if want := []string{"1", "2", "3", "4"}; !slices.Equal(data, want) {
			t.Errorf("in pieces of %d the client's events are %q, want %q", size, data, want)
		}
	}
}

func TestA10FieldSyntax(t *testing.T) {
	const stream = "data:{\"a\":1}\n\ndata: {\ndata:\"b\":2\ndata: }\n\nevent: e\nid: 1\nretry: 5\nx: y\nz\ndata: 3\n\ndata: [DONE]\n\n"
	var seen []string
	relay := &sse.Relay{Observe: func(ev sse.Event) []byte {
		seen = append(seen, string(ev.Data))
		return ev.Raw
	}}
	got := relayed(t, "HTTP/1.1", relay, cuts(stream, func() int { return 2 }))
	events, _ := decodeStream(got)
	want, _ := decodeStream(stream)
	diff(t, "relayed", stream, events, want)
	if !slices.Equal(seen, []string{`{"a":1}`, "{\n\"b\":2\n}", "3", "[DONE]"}) {
		t.Errorf("observed %q", seen)
	}
}

// TestB1NothingIsHeldBack has a replica that does not send an event before
// the client has the one before, which ends in every possible way.
func TestB1NothingIsHeldBack(t *testing.T) {
	for _, proto := range protocols {
		for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r", "\n\r\n"} {
			t.Run(fmt.Sprintf("%s %q", proto, end), func(t *testing.T) {
				seen := make(chan struct{})
				url := replica(t, func(write func(string)) {
					for i := range 50 {
						write(fmt.Sprintf("data: %02d", i) + end)
						<-seen
					}
				})
				resp := serve(t, proto, forward(t, &sse.Relay{}, url, nil))()
				for i := range 50 {
					if got, want := readN(t, resp.Body, 8+len(end)), fmt.Sprintf("data: %02d", i)+end; got != want {
						t.Fatalf("event %d is %q, want %q", i, got, want)
					}
					seen <- struct{}{}
				}
			})
		}
	}
}

// counting counts writes and flushes and keeps what was flushed.
type counting struct {
	*httptest.ResponseRecorder
	writes, flushes int
}

func (c *counting) Write(p []byte) (int, error) {
	c.writes++
	return c.ResponseRecorder.Write(p)
}

func (c *counting) Flush() { c.flushes++ }

// TestOneFlushForWhatCameTogether reads four events at once, with dropped
// ones before, between and after them.
func TestOneFlushForWhatCameTogether(t *testing.T) {
	reads := []string{": c\n\ndata: 1\n\ndata: drop\n\ndata: 2\n\n: c\n\ndata: 3\n\ndata: dr", "op\n\n", "data: 4\n", "\n: c\n\n", "data: drop\n\n"}
	var readers []io.Reader
	for _, s := range reads {
		readers = append(readers, strings.NewReader(s))
	}
	relay := &sse.Relay{Observe: func(ev sse.Event) []byte {
		switch string(ev.Data) {
		case "drop":
			return nil
		case "3":
			return []byte("data: three\n\n")
		}
		return ev.Raw
	}}
	w := &counting{ResponseRecorder: httptest.NewRecorder()}
	if err := relay.Copy(newWriter(t, w, sse.WriterConfig{}), io.MultiReader(readers...)); err != nil {
		t.Fatal(err)
	}
	if got, want := w.Body.String(), "data: 1\n\ndata: 2\n\ndata: three\n\ndata: 4\n\n"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	if w.flushes != 2 {
		t.Errorf("%d flushes, want one for each read with something to send", w.flushes)
	}
}

// TestC2UpstreamBreaks resets, or ends, the replica's connection inside an
// event.
func TestC2UpstreamBreaks(t *testing.T) {
	const head = "9\r\ndata: x\n\n\r\n7\r\ndata: y\r\n"
	answers := map[string]func(conn *net.TCPConn){
		"reset": func(conn *net.TCPConn) {
			_, _ = io.WriteString(conn, head)
			_ = conn.SetLinger(0)
		},
		"end of the connection": func(conn *net.TCPConn) { _, _ = io.WriteString(conn, head) },
		"end of the body":       func(conn *net.TCPConn) { _, _ = io.WriteString(conn, head+"0\r\n\r\n") },
	}
	for what, answer := range answers {
		for name, middleware := range middlewares {
			for _, proto := range protocols {
				t.Run(what+" "+name+" "+proto, func(t *testing.T) {
					result := make(chan error, 1)
					get := serve(t, proto, middleware(forward(t, &sse.Relay{}, rawReplica(t, answer), result)))
					body, err := io.ReadAll(get().Body)
					if !broken(err) || strings.Contains(string(body), "y") {
						t.Errorf("client reads %q, %v", body, err)
					}
					// A reset may overtake the first event on its way.
					err = <-result
					if what != "reset" && (string(body) != "data: x\n\n" || !errors.Is(err, sse.ErrTruncated)) || err == nil || errors.As(err, new(*sse.WriteError)) {
						t.Errorf("client reads %q, Copy = %v", body, err)
					}
				})
			}
		}
	}
}

func TestCopyWithoutAbort(t *testing.T) {
	rec := httptest.NewRecorder()
	cause := errors.New("gone")
	src := io.MultiReader(strings.NewReader("data: x\n\n"), iotest.ErrReader(cause))
	err := (&sse.Relay{}).Copy(newWriter(t, rec, sse.WriterConfig{}), src)
	if !errors.Is(err, cause) || !errors.Is(err, sse.ErrCannotAbort) {
		t.Errorf("Copy = %v", err)
	}
}

func TestCopyTooLarge(t *testing.T) {
	rec := httptest.NewRecorder()
	err := (&sse.Relay{MaxEvent: 20}).Copy(newWriter(t, rec, sse.WriterConfig{}), strings.NewReader("data: x\n\ndata: "+strings.Repeat("y", 30)+"\n\n"))
	if !errors.As(err, new(*sse.TooLargeError)) || rec.Body.String() != "data: x\n\n" {
		t.Errorf("sent %q, Copy = %v", rec.Body, err)
	}
}

// TestClientLeaves has a client that goes away: Copy ends with its error.
func TestClientLeaves(t *testing.T) {
	for _, proto := range protocols {
		stop := make(chan struct{})
		url := replica(t, func(write func(string)) {
			for {
				select {
				case <-stop:
					return
				default:
					write(answer(10))
				}
			}
		})
		result := make(chan error, 1)
		resp := serve(t, proto, forward(t, &sse.Relay{}, url, result))()
		readN(t, resp.Body, 100)
		_ = resp.Body.Close()
		if err := <-result; err == nil {
			t.Errorf("%s: Copy = nil", proto)
		}
		close(stop)
	}
}

// discard accepts everything.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) FlushError() error           { return nil }

func TestRelayAllocations(t *testing.T) {
	event := []byte("data: " + strings.Repeat("x", 240) + "\n\n")
	relay := &sse.Relay{Observe: func(ev sse.Event) []byte { return ev.Raw }}
	sw := newWriter(t, &discard{}, sse.WriterConfig{})
	defer sw.Close()
	src := bytes.NewReader(nil)
	few, many := bytes.Repeat(event, 10), bytes.Repeat(event, 210)
	run := func(stream []byte) float64 {
		return testing.AllocsPerRun(20, func() {
			src.Reset(stream)
			if err := relay.Copy(sw, iotest.OneByteReader(src)); err != nil {
				t.Fatal(err)
			}
		})
	}
	// What is pooled is made anew now and then, under the race detector often;
	// one allocation per event would be 200.
	if a, b := run(few), run(many); b > a+10 {
		t.Errorf("%v allocations for 10 events, %v for 210", a, b)
	}
}
