// Package metrics counts a gateway's requests for Prometheus, in a registry
// of its own; the global one is never touched.
//
// Every label is taken from a closed set: the pools, models and (only if
// asked for) tenants that Names lists, and fixed words for everything else.
// A name outside its set shares the label "other" and an absent one the label
// "none", so nothing a client sends can make a new series. Series of a name
// that SetNames takes out go with it.
//
// The metrics, with times in seconds:
//
//	expediter_requests_total{pool,model,endpoint,stream,status}  accepted requests, by final status
//	expediter_responses_total{code}                  accepted requests, by HTTP status sent
//	expediter_rejected_total{code}                   requests turned away before they were accepted
//	expediter_attempts_total{pool}                   requests sent to replicas, second tries included
//	expediter_tokens_total{pool,model,kind}          kind: input, cached (part of input), predicted (to be cached), output
//	expediter_priced_tokens_total{pool,model,kind}   kind: reserved, charged
//	expediter_estimated_total{pool,model}            requests whose tokens are the gateway's own count
//	expediter_objective_total{pool,model,objective}   requests that were promised a TTFT or TPOT; objective: met, missed
//	expediter_ttft_seconds{pool,model}               histogram, of requests that got a token
//	expediter_tpot_seconds{pool,model}               histogram, of requests that got two
//	expediter_queue_wait_seconds{pool,model}         histogram, of requests that were dispatched
//	expediter_duration_seconds{pool,model}           histogram, of all
//	expediter_tenant_requests_total{tenant,status}   only with Names.Tenants
//	expediter_tenant_tokens_total{tenant,kind}       only with Names.Tenants
//	expediter_build_info{version,revision,goversion} always 1
//
// and what Watch and WatchSink read at each scrape, beside those of the Go
// runtime and the process. Serve Handler on a listener that only
// operators reach: names of tenants and replicas are in it.
package metrics
