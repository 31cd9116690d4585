// Package expediter puts LLM-aware load balancing in front of unmodified vLLM
// replicas. It is an http.Handler that speaks OpenAI's API to clients, and a
// set of packages of which each can be used alone.
//
// Requests to a language model are wildly unequal: one costs 40 ms of GPU
// time, the next holds GPU memory for two minutes. A balancer that counts
// requests sees them as the same. This one knows, for each replica, how much
// KV cache is free, how many prompt tokens wait to be prefilled, and which
// prompt prefixes and LoRA adapters it already holds.
//
// # The way of a request
//
//	          POST /v1/chat/completions
//	                    │
//	1 accept     who is it, is the body sound, which pool serves that name     tenant, internal/openai
//	2 measure    chat template, tokens, block hashes, the most it may produce  tokenize, prefix
//	3 reserve    that much from the tenant's quota, under the request's id     quota
//	4 admit  ◄─┐ wait in line until some replica has room                      admission
//	5 route    │ the replica that it delays least; a lease on it               router, registry, prefix
//	6 forward ─┘ hold everything back until the first token; a replica that
//	             fails before it is replaced by another (4 to 6 again)         vllm
//	7 relay      each event the moment it is complete                          sse
//	8 settle     lease, line, quota, prefix map, record: once, on every path   usage, metrics
//
// One struct, request, carries a request through one method per step; the
// file of each step is named for it. finish gives back whatever the request
// still holds when it ends, also after a panic.
//
// # Seams
//
// Five interfaces can be replaced, each with a conformance suite beside it:
// Scorer (what sending a request to a replica would cost; routertest),
// Admitter (who may start; admissiontest), Registry (which replicas there are;
// registrytest), PrefixMap (who holds which prompt blocks; prefixtest) and
// QuotaStore (what a tenant has left; quotatest). Authentication is a function
// and usage records go to a Sink.
//
// # First token
//
// A chunk that carries content, reasoning, a tool call or a finish reason is
// the first token; a chunk that only names the role is not. Before the first
// token the client has received nothing and a failed replica is replaced,
// within a budget. After it nothing is ever tried again: the client gets an
// error event and then an abnormal end of the connection, which no client can
// take for a complete answer.
//
// # What a request is charged
//
// Quota is reserved for the prompt plus n times the output limit. At the end
// the tokens that the engine reports are charged and the rest is given back.
// Usage is asked for with every event, so a client that leaves early pays the
// prompt and what was produced until then. A request that no replica could
// serve costs nothing.
package expediter
