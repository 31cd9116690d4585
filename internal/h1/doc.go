// Package h1 is the client's side of HTTP/1.1 for answers that come event by
// event for minutes. Where net/http's own transport has three goroutines and three
// buffers for an open answer, here there is one of each: the caller's own
// goroutine reads the connection straight into the caller's buffer, where the
// chunk framing is taken out in place.
//
// It does only what a gateway needs of its replicas: no proxies, no redirects,
// no compression, no trailers, no replay of a request, no upgrade of the
// protocol. Heads of answers are parsed by net/http.
package h1
