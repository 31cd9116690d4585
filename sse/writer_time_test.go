package sse_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/sse"
)

const timeout = 4 * time.Second

func newWriter(t *testing.T, w http.ResponseWriter, cfg sse.WriterConfig) *sse.Writer {
	t.Helper()
	sw, err := sse.NewWriter(w, cfg)
	if err != nil {
		t.Errorf("NewWriter: %v", err)
		panic(http.ErrAbortHandler)
	}
	return sw
}

// emit writes an event and flushes it.
func emit(w *sse.Writer, event string) error {
	if _, err := w.Write([]byte(event)); err != nil {
		return err
	}
	return w.Flush()
}

// TestB3ServerWriteTimeout has a server whose own time-out is far shorter
// than the stream.
func TestB3ServerWriteTimeout(t *testing.T) {
	bubble(t, 200*time.Millisecond, func(t *testing.T, get func() *http.Response, handle func(http.HandlerFunc)) {
		handle(func(w http.ResponseWriter, r *http.Request) {
			sw := newWriter(t, w, sse.WriterConfig{Timeout: timeout})
			defer sw.Close()
			for range 30 {
				pause(100 * time.Millisecond)
				if err := emit(sw, "data: x\n\n"); err != nil {
					t.Error(err)
				}
			}
		})
		resp := get()
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != strings.Repeat("data: x\n\n", 30) {
			t.Errorf("read %q, %v", body, err)
		}
	})
}

// TestB11SilenceIsNotAStall has silences that are far longer than any write
// may take.
func TestB11SilenceIsNotAStall(t *testing.T) {
	bubble(t, 0, func(t *testing.T, get func() *http.Response, handle func(http.HandlerFunc)) {
		handle(func(w http.ResponseWriter, r *http.Request) {
			sw := newWriter(t, w, sse.WriterConfig{Timeout: timeout})
			defer sw.Close()
			for i := range 6 {
				if err := emit(sw, "data: x\n\n"); err != nil {
					t.Error(err)
				}
				pause(time.Duration(i) * timeout * 3 / 4)
			}
		})
		body, err := io.ReadAll(get().Body)
		if err != nil || string(body) != strings.Repeat("data: x\n\n", 6) {
			t.Errorf("read %q, %v", body, err)
		}
	})
}

// TestE8ClientStopsReading has clients that stop after some time, at any
// moment between two looks at the clock.
func TestE8ClientStopsReading(t *testing.T) {
	bubble(t, 0, func(t *testing.T, get func() *http.Response, handle func(http.HandlerFunc)) {
		for offset := time.Duration(0); offset < timeout; offset += timeout / 16 {
			ended := make(chan time.Duration, 1)
			handle(func(w http.ResponseWriter, r *http.Request) {
				sw := newWriter(t, w, sse.WriterConfig{Timeout: timeout})
				defer sw.Close()
				if err := emit(sw, "data: x\n\n"); err != nil {
					t.Error(err)
				}
				pause(offset)
				var err error
				var begin time.Time
				for err == nil {
					begin = time.Now()
					err = emit(sw, strings.Repeat("x", 100_000))
				}
				if !errors.Is(err, sse.ErrStalled) || !errors.As(err, new(*sse.WriteError)) {
					t.Errorf("a write that is not accepted ends with %v", err)
				}
				if err2 := emit(sw, "x"); err2 != err {
					t.Errorf("the next one with %v", err2)
				}
				ended <- time.Since(begin)
			})
			resp := get()
			readN(t, resp.Body, 9)
			if took := <-ended; took <= timeout*3/4-time.Millisecond || took > timeout {
				t.Errorf("offset %v: cut off after %v, want at most %v and not much less", offset, took, timeout)
			}
			if _, err := io.Copy(io.Discard, resp.Body); !broken(err) {
				t.Errorf("the client's body ends with %v", err)
			}
		}
	})
}

// TestE8SlowClient has a client that takes longer for an event than the
// time-out, but never stops.
func TestE8SlowClient(t *testing.T) {
	bubble(t, 0, func(t *testing.T, get func() *http.Response, handle func(http.HandlerFunc)) {
		const size = 8 << 20 // twice what an HTTP/2 client accepts unread
		handle(func(w http.ResponseWriter, r *http.Request) {
			sw := newWriter(t, w, sse.WriterConfig{Timeout: timeout})
			defer sw.Close()
			begin := time.Now()
			if err := emit(sw, strings.Repeat("x", size)); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took < 2*timeout {
				t.Errorf("one write has taken %v: too short to show anything", took)
			}
		})
		resp := get()
		n := 0
		for n < size {
			m := min(64<<10, size-n)
			readN(t, resp.Body, m)
			n += m
			pause(timeout / 8)
		}
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
			t.Errorf("then %d bytes, %v", len(rest), err)
		}
	})
}

// TestDeadlineDoesNotOutliveTheResponse sends another request over the same
// connection, whose answer takes longer than the time-out of the stream.
func TestDeadlineDoesNotOutliveTheResponse(t *testing.T) {
	bubble(t, 0, func(t *testing.T, get func() *http.Response, handle func(http.HandlerFunc)) {
		for i := range 2 {
			handle(func(w http.ResponseWriter, r *http.Request) {
				if i == 0 {
					sw := newWriter(t, w, sse.WriterConfig{Timeout: timeout})
					if err := emit(sw, "data: x\n\n"); err != nil {
						t.Error(err)
					}
					return // without Close
				}
				pause(5 * timeout)
				_, _ = io.WriteString(w, "plain")
			})
			resp := get()
			if body, err := io.ReadAll(resp.Body); err != nil {
				t.Errorf("response %d: %q, %v", i, body, err)
			}
			_ = resp.Body.Close()
		}
	})
}

// TestA7KeepAlive has a client that, as some do, makes an event of every
// blank line.
func TestA7KeepAlive(t *testing.T) {
	bubble(t, 0, func(t *testing.T, get func() *http.Response, handle func(http.HandlerFunc)) {
		handle(func(w http.ResponseWriter, r *http.Request) {
			sw := newWriter(t, w, sse.WriterConfig{Timeout: timeout, KeepAlive: time.Second})
			defer sw.Close()
			pause(5 * time.Second) // nothing before the first event: the header is not out either
			for _, gap := range []time.Duration{500, 3500, 0, 1000, 900} {
				if err := emit(sw, "id: 1\ndata: x\n\n"); err != nil {
					t.Error(err)
				}
				pause(gap*time.Millisecond + time.Microsecond)
			}
		})
		body, err := io.ReadAll(get().Body)
		const event = "id: 1\ndata: x\n\n"
		want := event + event + ":\n:\n:\n" + event + event + ":\n" + event
		if err != nil || string(body) != want {
			t.Errorf("read %q, %v, want %q", body, err, want)
		}
		for i, block := range strings.SplitAfter(string(body), "\n\n") {
			if block != "" && !strings.Contains(block, "data: x\n") {
				t.Errorf("block %d has no data: %q", i, block)
			}
		}
	})
}

// TestKeepAliveIsCutOff has a client that is gone silent itself: the
// keep-alive must not wait for it for ever, nor Close for the keep-alive.
func TestKeepAliveIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deaf{header: http.Header{}, cut: make(chan struct{}), after: 1}
		sw := newWriter(t, w, sse.WriterConfig{Timeout: timeout, KeepAlive: time.Second})
		if err := emit(sw, "data: x\n\n"); err != nil {
			t.Fatal(err)
		}
		pause(2 * timeout)
		if err := emit(sw, "data: x\n\n"); !errors.Is(err, sse.ErrStalled) {
			t.Errorf("after a stalled keep-alive: %v", err)
		}
		sw.Close()
	})
}

// deaf accepts some writes and then blocks until its deadline is set into
// the past.
type deaf struct {
	header http.Header
	after  int
	cut    chan struct{}
}

func (d *deaf) Header() http.Header { return d.header }
func (d *deaf) WriteHeader(int)     {}
func (d *deaf) Flush()              {}

func (d *deaf) Write(p []byte) (int, error) {
	if d.after--; d.after >= 0 {
		return len(p), nil
	}
	<-d.cut
	return 0, errors.New("deadline exceeded")
}

func (d *deaf) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() && at.Before(time.Now()) {
		close(d.cut)
	}
	return nil
}

func TestNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deaf{header: http.Header{}, cut: make(chan struct{})}
		sw := newWriter(t, w, sse.WriterConfig{Timeout: -1})
		time.AfterFunc(1000*time.Hour, func() {
			if err := sw.Abort(); err != nil {
				t.Errorf("Abort: %v", err)
			}
		})
		begin := time.Now()
		err := emit(sw, "data: x\n\n")
		if took := time.Since(begin); took != 1000*time.Hour || !errors.Is(err, sse.ErrAborted) {
			t.Errorf("write ends after %v with %v", took, err)
		}
	})
}
