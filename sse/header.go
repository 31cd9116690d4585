package sse

import "net/http"

// SetHeader prepares the header of a response for an event stream: its
// content type, no caching or transformation on the way, no buffering in
// nginx and those that follow it, and neither a length nor an encoding that
// were meant for another body.
func SetHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Del("Content-Length")
	h.Del("Content-Encoding")
}
