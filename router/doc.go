// Package router chooses the replica that serves a request, and claims room
// there in the same step.
//
// A [Router] asks its scorers, in turn, what sending the request to each
// replica would cost, in seconds of delay to it and to everyone already
// there, adds the answers up and takes the cheapest replica that grants a
// lease. One unit makes the parts comparable: "crossing zones costs 2 ms" can
// be judged, a weight of a normalised score cannot. A filter is a scorer that
// says [Never].
//
// # The default: marginal cost
//
// With L the load on a replica now ([registry.Replica.Estimate]), R its
// prefill rate, u the request's uncached prompt tokens there, ū those of the
// pool's average request, o the output expected, B = L.Requests, the cost of
// a replica is
//
//	wait      (L.Prefill + u) / R                            until my first token
//	crowd     γ · B · L.Prefill / R                          a line is worse where much else runs
//	stall     α · B · u / R                                  my prefill holds up B running sequences
//	        + α · B · ū / R                                  the prefills of those who replace them hold me up
//	decode    β/2 · o · (s·B + k·L.Context)                  they slow each of my tokens
//	        + β/2 · o · B · (s + k·c)                        I slow each of theirs
//	overflow  (1 + α·B) · max(0, L.KV + kv - usable) / R     what the engine will preempt and compute again
//
// where s = 1/(2R) is the compute of one more sequence per step, k the time
// to read one token of context per step, c the request's own context and kv
// the KV tokens it will occupy.
//
// Sources. wait is the time to first token of Mooncake's Conductor (FAST'25,
// algorithm 1). The product B·u of stall is LMetric's (arXiv 2603.15202); its
// counterpart B·ū follows from steady state, in which a replica's B sequences
// are replaced once while I decode. decode follows the step time measured on
// A100 with vLLM, which is affine in batch size and in context read: 33 µs per
// sequence and 85 ns per token of context for an 8B model on one card, 80 µs
// and 115 ns for a 70B model on two, with prefill at 15,000 and 3,200
// tokens/s. overflow follows from vLLM's scheduler, which admits by prompt
// and preempts by recomputation. KV shared through the prefix cache is counted
// once in L.KV and in full in L.Context: memory is shared, bandwidth is not.
//
// α = 0.2, β = 0.05 and γ = 0.05 were chosen with the simulated fleet (package
// sim/fleet) on ten workloads. A second of stalled decoding, spread over an
// answer, is not a second until the first token. Larger α favours bursts of
// long prompts with short answers, smaller α conversations. crowd, the other
// half of LMetric's product, has no such derivation: it damps the rush to a
// replica that has just become free, which has no batch to stall yet.
//
// # Published rules to compare with
//
// They are scorers like any other, see [ByName]. Their costs are not seconds,
// so each stands alone.
package router
