// Package usage keeps the account: sinks that carry each expediter.Record to
// a file, a Redis stream or a team's own function, and Scan, which reads
// records back.
//
// # What a sink promises
//
// File, Redis and Func take a Record without ever blocking: it goes into a
// bounded buffer, and one goroutine delivers what is there. When the buffer
// is full because the far side is slow, gone or out of space, the newest
// Record is dropped and counted; those already taken keep their order.
// Written, Dropped and Waiting always add up to what was given. Close stops
// taking, delivers what waits and counts as dropped what its context left no
// time for.
//
// # The JSON form
//
// One object per line. Fields are always all present, in this order; later
// versions may add fields at the end but will not rename or remove any:
//
//	id                       string   the gateway's request id
//	time                     string   RFC 3339 in UTC, to the nanosecond: arrival
//	endpoint                 string   chat, completions
//	stream                   bool
//	tenant                   string   opaque id
//	tier                     integer
//	model                    string   asked for by the client
//	served                   string   asked for at the replica
//	pool                     string
//	adapter                  string   LoRA adapter, or ""
//	replica                  string   the last one tried
//	generation               integer  the replica's generation at dispatch
//	attempts                 integer  requests sent to replicas
//	input_tokens             integer
//	cached_tokens            integer  part of input_tokens, as the engine reported
//	predicted_cached_tokens  integer  as the gateway expected
//	output_tokens            integer
//	estimated                bool     the counts are the gateway's own
//	approximate              bool     the pool's tokenizer is not the model's own
//	reserved                 integer  priced tokens reserved
//	charged                  integer  priced tokens charged
//	queue_wait_ms            number   milliseconds, exact to the nanosecond
//	ttft_ms                  number   0 if there was no token
//	tpot_ms                  number   0 below two tokens
//	total_ms                 number
//	objective                string   met, missed, or "" if nothing was promised
//	status                   string   ok, refused, client_cancelled, truncated, failed, client_stalled, panicked
//	http_status              integer  499 if the client left before one was sent
//	finish_reason            string
//	ended_by                 string   engine, client, gateway
//	error                    string   short reason, "" on success
//
// A Record holds no prompt, completion or key, and neither does its JSON form.
package usage
