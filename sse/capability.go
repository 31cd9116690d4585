package sse

import (
	"net/http"
	"time"
)

type flushErrorer interface{ FlushError() error }

type deadliner interface{ SetWriteDeadline(time.Time) error }

// abilities is what a ResponseWriter, or one that it wraps, can do beyond
// the interface. Those of the outermost come first, as in
// http.ResponseController.
type abilities struct {
	flush      http.Flusher // flush without an error, by a wrapper
	flushError flushErrorer // flush with one
	deadline   deadliner
}

// look walks from w through its Unwrap methods. A wrapper's own Flush must
// be called, for it may hold bytes back; where it returns no error, the
// writer below that does is asked as well.
func look(w http.ResponseWriter) abilities {
	var a abilities
	for w != nil {
		if a.flushError == nil {
			switch f := w.(type) {
			case flushErrorer:
				a.flushError = f
			case http.Flusher:
				if a.flush == nil {
					a.flush = f
				}
			}
		}
		if d, ok := w.(deadliner); ok && a.deadline == nil {
			a.deadline = d
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = u.Unwrap()
	}
	return a
}

func (a *abilities) canFlush() bool { return a.flush != nil || a.flushError != nil }

// doFlush flushes through the outermost writer.
func (a *abilities) doFlush() error {
	if a.flush != nil {
		a.flush.Flush()
	}
	if a.flushError != nil {
		return a.flushError.FlushError()
	}
	return nil
}
