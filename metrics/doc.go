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
// read at each scrape from what Watch was given, gauges unless named total:
//
//	expediter_replica_requests{pool,replica}               sent by this gateway, not finished; also
//	                                                       prefilling, prefill_tokens, kv_tokens
//	expediter_replica_estimated_kv_tokens{pool,replica}    those of other senders included
//	expediter_replica_usable_kv_tokens{pool,replica}       capacity below the headroom
//	expediter_replica_routable{pool,replica}               0 or 1; also ejected, draining
//	expediter_replica_prefill_tokens_per_second{pool,replica}, expediter_replica_step_seconds   as learned
//	expediter_replica_reported_running{pool,replica}       as the engine said; also waiting, kv_usage,
//	                                                       age_seconds, preemptions_total,
//	                                                       prompt_tokens_total, cached_tokens_total
//	expediter_queue_waiting{pool}                          requests in line; also waiting_tokens
//	expediter_queue_free_tokens_per_second{pool}           rate at which room appears
//	expediter_queue_tier_waiting{pool,tier}, expediter_queue_tier_tenants   tiers above 15 share "other"
//
// from what WatchParity was given:
//
//	expediter_tokenizer_parity{pool,replica}               1 if the replica's token ids are the gateway's, 0 if
//	                                                       not; absent while unknown
//
// from what WatchQuota was given:
//
//	expediter_quota_down, expediter_quota_pending_settlements, expediter_quota_dropped_settlements_total
//
// from what WatchKeys and WatchPrefixes were given:
//
//	expediter_keys, expediter_tenants                      as they are now
//	expediter_authentications_refused_total, expediter_authentications_limited_total
//	expediter_prefix_blocks{pool}, expediter_prefix_bytes  believed to be cached; memory of the map
//
// and from what WatchSink was given:
//
//	expediter_usage_written_total{sink}, expediter_usage_dropped_total, expediter_usage_waiting
//
// beside those of the Go runtime and the process. Serve Handler on a listener that only
// operators reach: names of tenants and replicas are in it.
package metrics
