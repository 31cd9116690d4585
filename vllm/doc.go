// Package vllm is the engine's face: what a gateway in front of vLLM replicas
// has to know of the engine's wire formats, and nothing of routing.
//
// Chunk reads the events of a stream. Metrics reads a /metrics page, in the
// names of every release since 2025. Watcher polls the replicas of one pool
// and keeps their reported state, health and restarts current in package
// registry. Parity compares the token ids that the gateway counts with those
// that the replicas compute. Models asks for what a replica serves.
// DecodeError reads the engine's error bodies. NewTransport makes an
// HTTP transport that fits the engine's habits and refuses addresses no
// replica may have.
//
// A replica is untrusted input everywhere in this package: bodies are bounded
// in bytes and time, numbers are clamped, redirects are not followed.
package vllm
