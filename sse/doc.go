// Package sse reads, writes and relays server-sent events without holding
// any of them back.
//
// A [Scanner] cuts a byte stream into events as the WHATWG HTML standard
// defines them (section 9.2.6, "Interpreting an event stream"), whatever the
// line ends and however the network sliced the bytes. A [Writer] sends events
// to a client: it refuses at construction a ResponseWriter that cannot
// flush, ends clients that stopped reading, and can break a response off so
// that nobody takes it for complete. A [Relay] joins the two.
//
// The three are made for streams of language model answers: thousands open at
// once, most events a few hundred bytes in one line, an odd one of several
// megabytes. In steady state an event costs no allocation, and an open stream
// holds one small buffer.
package sse
