package sse

import (
	"errors"
	"io"
	"sync"
)

// A Relay sends the events of one stream on to a client. Each is on its way
// the moment its last byte has been read; those that arrived together leave
// together. Nothing is read while the client does not accept what was read
// before, so a Relay holds one event at most, and the source feels the back
// pressure.
//
// The zero value relays everything. A Relay may be used for any number of
// streams at once; its fields must not change meanwhile.
type Relay struct {
	// Observe is called with each event before it is sent and returns what
	// to send in its place: ev.Raw as it is, nothing to drop the event, or
	// other bytes, which must be whole events and stay valid until the next
	// call. It is called by all streams at once. Events without data are
	// dropped before. If nil, every event is sent as it is.
	Observe func(ev Event) []byte

	// MaxEvent is as in ScannerConfig.
	MaxEvent int

	scanners sync.Pool
}

// Copy relays events from src to w until src ends, and returns nil if it
// ended between two events. After an error of src the response has been
// aborted, so that the client does not take it for complete; where that was
// not possible the error wraps ErrCannotAbort too. An error of the client is
// a *WriteError. src has to wait: ErrNotYet is an error as any other. Copy closes
// neither src nor w.
func (r *Relay) Copy(w *Writer, src io.Reader) error {
	s, _ := r.scanners.Get().(*Scanner)
	if s == nil {
		s = NewScanner(nil, ScannerConfig{MaxEvent: r.MaxEvent})
	}
	s.Reset(src)
	defer func() {
		s.Reset(nil)
		r.scanners.Put(s)
	}()
	for {
		ev, err := s.Next()
		if err != nil {
			return end(w, err)
		}
		if err := r.send(w, ev); err != nil {
			return err
		}
		if s.Buffered() {
			continue
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

// send writes what is to be sent for one event.
func (r *Relay) send(w *Writer, ev Event) error {
	if ev.Empty() {
		return nil
	}
	out := ev.Raw
	if r.Observe != nil {
		out = r.Observe(ev)
	}
	if len(out) == 0 {
		return nil
	}
	_, err := w.Write(out)
	return err
}

// end finishes a response whose source has returned err.
func end(w *Writer, err error) error {
	if ferr := w.Flush(); ferr != nil {
		return ferr
	}
	if err == io.EOF {
		return nil
	}
	if aerr := w.Abort(); aerr != nil {
		return errors.Join(err, aerr)
	}
	return err
}
