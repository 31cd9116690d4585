package sse_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/sse"
)

// event is one of the size that the engine sends.
var event = "data: " + strings.Repeat("x", 240) + "\n\n"

func BenchmarkScannerNext(b *testing.B) {
	for name, pieces := range map[string][]string{
		"one_event_per_read": {event},
		"16_events_per_read": {strings.Repeat(event, 16)},
		"CRLF":               {strings.ReplaceAll(event, "\n", "\r\n")},
		"three_data_lines":   {"data: " + event[6:80] + "\n" + "data: " + event[6:80] + "\n" + "data: " + event[6:80] + "\n\n"},
		"two_reads":          {event[:100], event[100:]},
	} {
		b.Run(name, func(b *testing.B) {
			s := sse.NewScanner(&loop{pieces: pieces}, sse.ScannerConfig{})
			b.SetBytes(int64(len(event)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBufioReadLine is the usual way to read the same, for comparison.
func BenchmarkBufioReadLine(b *testing.B) {
	r := bufio.NewReader(&loop{pieces: []string{event}})
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	for b.Loop() {
		for range 2 {
			line, err := r.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			_ = bytes.TrimRight(line, "\r\n")
		}
	}
}

func BenchmarkScannerLongLine(b *testing.B) {
	stream := "data: " + strings.Repeat("x", 4<<20) + "\n\n"
	s := sse.NewScanner(nil, sse.ScannerConfig{})
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		s.Reset(strings.NewReader(stream))
		if _, err := s.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriter(b *testing.B) {
	sw, err := sse.NewWriter(&discard{}, sse.WriterConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer sw.Close()
	p := []byte(event)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := sw.Write(p); err != nil {
			b.Fatal(err)
		}
		if err := sw.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}

// plainCopy is what a proxy does that knows nothing of events: it copies
// and flushes what it reads.
func plainCopy(w http.ResponseWriter, src io.Reader) error {
	rc := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			if ferr := rc.Flush(); ferr != nil {
				return ferr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// BenchmarkLoopback sends events one by one through a handler on a real
// connection: an operation is one event, read from a socket, relayed and read
// by the client. The handler is the only difference between the two.
func BenchmarkLoopback(b *testing.B) {
	relay := &sse.Relay{Observe: func(ev sse.Event) []byte { return ev.Raw }}
	for name, handle := range map[string]func(http.ResponseWriter, io.Reader) error{
		"relay": func(w http.ResponseWriter, src io.Reader) error {
			sw, err := sse.NewWriter(w, sse.WriterConfig{})
			if err != nil {
				return err
			}
			defer sw.Close()
			return relay.Copy(sw, src)
		},
		"copy_and_flush": plainCopy,
	} {
		b.Run(name, func(b *testing.B) {
			source, sink := socketPair(b)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := handle(w, sink); err != nil {
					b.Error(err)
				}
			}))
			defer srv.Close()
			if _, err := io.WriteString(source, event); err != nil {
				b.Fatal(err)
			}
			resp, err := http.Get(srv.URL)
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, len(event))
			step := func() {
				if _, err := io.ReadFull(resp.Body, buf); err != nil {
					b.Fatal(err)
				}
			}
			step()
			b.ReportAllocs()
			before := cpuTime()
			for b.Loop() {
				if _, err := source.Write(buf); err != nil { // what was read is the event
					b.Fatal(err)
				}
				step()
			}
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
			_ = source.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	}
}

// socketPair returns both ends of a TCP connection.
func socketPair(b *testing.B) (a, z net.Conn) {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	a, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	z, err = ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = a.Close(), z.Close() })
	return a, z
}

// BenchmarkOpenStream reports the heap that a scanner and a writer hold while
// a stream is open.
func BenchmarkOpenStream(b *testing.B) {
	const n = 1000
	type stream struct {
		s *sse.Scanner
		w *sse.Writer
	}
	for b.Loop() {
		streams := make([]stream, n)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range streams {
			sw, err := sse.NewWriter(&discard{}, sse.WriterConfig{})
			if err != nil {
				b.Fatal(err)
			}
			streams[i] = stream{sse.NewScanner(strings.NewReader(event), sse.ScannerConfig{}), sw}
			if ev, err := streams[i].s.Next(); err != nil || emit(sw, string(ev.Raw)) != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "heap-B/stream")
		for _, st := range streams {
			st.w.Close()
		}
	}
}
