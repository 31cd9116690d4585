package metrics

import "github.com/prometheus/client_golang/prometheus"

// Upper bounds of the histograms' buckets, in seconds.
var (
	ttftBuckets     = []float64{.01, .025, .05, .1, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 7.5, 10, 20, 30, 60}
	tpotBuckets     = []float64{.001, .0025, .005, .01, .015, .02, .025, .03, .04, .05, .075, .1, .15, .25, .5, 1}
	waitBuckets     = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	durationBuckets = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
)

// families are the metrics fed by Records.
type families struct {
	requests, responses, rejected, attempts, tokens, priced, estimated, objectives *prometheus.CounterVec
	ttft, tpot, wait, duration                                                     *prometheus.HistogramVec
	tenantRequests, tenantTokens                                                   *prometheus.CounterVec // nil without tenants
}

func newFamilies(reg prometheus.Registerer, tenants bool) families {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "expediter", Name: name, Help: help}, labels)
		reg.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "expediter", Name: name, Help: help, Buckets: buckets}, []string{"pool", "model"})
		reg.MustRegister(v)
		return v
	}
	f := families{
		requests:   counter("requests_total", "Accepted requests by final status.", "pool", "model", "endpoint", "stream", "status"),
		responses:  counter("responses_total", "Accepted requests by HTTP status sent.", "code"),
		rejected:   counter("rejected_total", "Requests turned away before they were accepted, by HTTP status.", "code"),
		attempts:   counter("attempts_total", "Requests sent to replicas, second tries included.", "pool"),
		tokens:     counter("tokens_total", "Tokens of finished requests; cached ones are part of input.", "pool", "model", "kind"),
		priced:     counter("priced_tokens_total", "Priced tokens reserved and charged.", "pool", "model", "kind"),
		estimated:  counter("estimated_total", "Requests whose tokens the gateway counted itself.", "pool", "model"),
		objectives: counter("objective_total", "Requests with a promised TTFT or TPOT, by whether it was kept.", "pool", "model", "objective"),
		ttft:       histogram("ttft_seconds", "Time to the first token.", ttftBuckets),
		tpot:       histogram("tpot_seconds", "Mean time per output token after the first.", tpotBuckets),
		wait:       histogram("queue_wait_seconds", "Time in line before dispatch.", waitBuckets),
		duration:   histogram("duration_seconds", "Time from arrival to the end.", durationBuckets),
	}
	if tenants {
		f.tenantRequests = counter("tenant_requests_total", "Accepted requests by tenant and final status.", "tenant", "status")
		f.tenantTokens = counter("tenant_tokens_total", "Tokens by tenant; charged ones are priced.", "tenant", "kind")
	}
	return f
}

// forget deletes the series in which label has the value.
func (f *families) forget(label, value string) {
	match := prometheus.Labels{label: value}
	for _, v := range []*prometheus.CounterVec{f.requests, f.attempts, f.tokens, f.priced, f.estimated, f.objectives, f.tenantRequests, f.tenantTokens} {
		if v != nil {
			v.DeletePartialMatch(match)
		}
	}
	for _, v := range []*prometheus.HistogramVec{f.ttft, f.tpot, f.wait, f.duration} {
		v.DeletePartialMatch(match)
	}
}
