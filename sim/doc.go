// Package sim is a simulated vLLM replica: the scheduler, the KV cache and the
// step times of one inference engine, without a GPU.
//
// One model has two faces. Engine is pure: it has no clock, no goroutine and no
// randomness, and whoever drives it decides how time passes. Server drives an
// Engine in real time (or in the fake time of a testing/synctest bubble) and
// answers vLLM's HTTP routes.
//
// The scheduling rules are those of vLLM's V1 engine: continuous batching with
// chunked prefill under a token budget, full-block prefix caching, preemption
// by recompute. A Profile holds what depends on model and hardware.
package sim
