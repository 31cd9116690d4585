package sim

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// histogram is a Prometheus histogram.
type histogram struct {
	bounds []float64
	counts []uint64 // by bound, not cumulative; the last is +Inf
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i]++
	h.sum += v
}

// meters are the series of a replica that its engine does not count itself.
type meters struct {
	iteration, promptTokens, generationTokens, maxTokens, paramN *histogram
	ttft, itl, tpot, e2e, queue, prefill, decode, inference      *histogram
	created                                                      time.Time
	loraSeries                                                   []loraSeries
}

// loraSeries is one label combination of lora_requests_info; vLLM never drops one.
type loraSeries struct {
	names string
	at    time.Time
}

func newMeters(maxLen int) meters {
	ttft := []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	gap := []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	long := []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	var tokens []float64
	for scale := 1.0; scale <= float64(maxLen); scale *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if m*scale <= float64(maxLen) {
				tokens = append(tokens, m*scale)
			}
		}
	}
	return meters{
		iteration:    newHistogram([]float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}),
		promptTokens: newHistogram(tokens), generationTokens: newHistogram(tokens), maxTokens: newHistogram(tokens),
		paramN: newHistogram([]float64{1, 2, 5, 10, 20}),
		ttft:   newHistogram(ttft), itl: newHistogram(gap), tpot: newHistogram(gap),
		e2e: newHistogram(long), queue: newHistogram(long), prefill: newHistogram(long),
		decode: newHistogram(long), inference: newHistogram(long),
		created: time.Now(),
	}
}

func (m *meters) step(w Work) { m.iteration.observe(float64(w.Tokens)) }

// token observes one output of the engine.
func (m *meters) token(c *choice, o Output, now time.Time) {
	if o.Reason == Aborted {
		return
	}
	if o.First {
		c.begin = now
		m.ttft.observe(now.Sub(c.arr).Seconds())
	} else {
		m.itl.observe(now.Sub(c.last).Seconds())
	}
	c.last = now
	if o.Reason == "" {
		return
	}
	n := o.Seq.Generated
	m.e2e.observe(now.Sub(c.arr).Seconds())
	m.promptTokens.observe(float64(o.Seq.Prompt))
	m.generationTokens.observe(float64(n))
	m.queue.observe(c.started.Sub(c.arr).Seconds())
	m.prefill.observe(c.begin.Sub(c.started).Seconds())
	m.decode.observe(now.Sub(c.begin).Seconds())
	m.inference.observe(now.Sub(c.started).Seconds())
	if n > 1 {
		m.tpot.observe(now.Sub(c.begin).Seconds() / float64(n-1))
	}
	if c.index == 0 {
		m.paramN.observe(float64(c.call.req.count()))
		if most := c.call.req.maxTokens(); most >= 0 {
			m.maxTokens.observe(float64(most))
		}
	}
}

// exposition writes the Prometheus text format.
type exposition struct {
	bytes.Buffer
	labels  string
	created time.Time
}

func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func (x *exposition) family(name, typ string) {
	fmt.Fprintf(x, "# HELP %s %s of the simulated engine.\n# TYPE %s %s\n", name, strings.ReplaceAll(name, "_", " "), name, typ)
}

func (x *exposition) line(name, extra string, v float64) {
	labels := x.labels
	if extra != "" {
		labels += "," + extra
	}
	fmt.Fprintf(x, "%s{%s} %s\n", name, labels, number(v))
}

func (x *exposition) gauge(name string, v float64) {
	x.family(name, "gauge")
	x.line(name, "", v)
}

func (x *exposition) counter(name string, v float64) {
	x.family(name+"_total", "counter")
	x.line(name+"_total", "", v)
	x.createdLine(name)
}

func (x *exposition) createdLine(name string) {
	x.family(name+"_created", "gauge")
	fmt.Fprintf(x, "%s_created{%s} %s\n", name, x.labels, number(float64(x.created.UnixNano())/1e9))
}

func (x *exposition) histogram(name string, h *histogram) {
	x.family(name, "histogram")
	var n uint64
	for i, c := range h.counts {
		n += c
		le := "+Inf"
		if i < len(h.bounds) {
			le = number(h.bounds[i])
		}
		x.line(name+"_bucket", `le="`+le+`"`, float64(n))
	}
	x.line(name+"_count", "", float64(n))
	x.line(name+"_sum", "", h.sum)
	x.createdLine(name)
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	s.led.count(r.URL.Path)
	t := s.trouble(&s.metrics)
	if !t.serve(r.Context(), w) {
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if t.Garbage != nil {
		_, _ = w.Write(t.Garbage)
		return
	}
	_, _ = w.Write(s.exposition())
}

// exposition renders the metrics as of the last step.
func (s *Server) exposition() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.shown
	x := &exposition{labels: fmt.Sprintf("engine=\"0\",model_name=%q", s.cfg.Model), created: s.met.created}
	fmt.Fprintf(x, "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %s\n",
		number(float64(s.met.created.UnixNano())/1e9))
	x.gauge("vllm:num_requests_running", float64(st.Running))
	x.gauge("vllm:num_requests_waiting", float64(st.Waiting))
	x.family("vllm:num_requests_waiting_by_reason", "gauge")
	x.line("vllm:num_requests_waiting_by_reason", `reason="capacity"`, float64(st.Waiting-st.Deferred))
	x.line("vllm:num_requests_waiting_by_reason", `reason="deferred"`, float64(st.Deferred))
	x.family("vllm:engine_sleep_state", "gauge")
	asleep := 0.0
	if s.asleep {
		asleep = 1
	}
	x.line("vllm:engine_sleep_state", `sleep_state="awake"`, 1-asleep)
	x.line("vllm:engine_sleep_state", `sleep_state="weights_offloaded"`, asleep)
	x.line("vllm:engine_sleep_state", `sleep_state="discard_all"`, 0)
	x.gauge("vllm:kv_cache_usage_perc", st.KVUsage())
	s.writeCounters(x, st)
	s.writeHistograms(x)
	s.writeInfo(x, st)
	return x.Bytes()
}

func (s *Server) writeCounters(x *exposition, st Stats) {
	x.counter("vllm:prefix_cache_queries", float64(st.Queries))
	x.counter("vllm:prefix_cache_hits", float64(st.Hits))
	x.counter("vllm:num_preemptions", float64(st.Preemptions))
	x.counter("vllm:prompt_tokens", float64(st.Prompt))
	x.family("vllm:prompt_tokens_by_source_total", "counter")
	x.line("vllm:prompt_tokens_by_source_total", `source="local_compute"`, float64(st.Prompt-st.Cached))
	x.line("vllm:prompt_tokens_by_source_total", `source="local_cache_hit"`, float64(st.Cached))
	x.line("vllm:prompt_tokens_by_source_total", `source="external_kv_transfer"`, 0)
	x.counter("vllm:prompt_tokens_cached", float64(st.Cached))
	x.counter("vllm:generation_tokens", float64(st.Generated))
	x.family("vllm:request_success_total", "counter")
	for _, f := range []struct {
		reason string
		n      uint64
	}{{"stop", st.Stop}, {"length", st.Length}, {"abort", st.Abort}, {"error", 0}, {"repetition", 0}} {
		x.line("vllm:request_success_total", `finished_reason="`+f.reason+`"`, float64(f.n))
	}
}

func (s *Server) writeHistograms(x *exposition) {
	m := &s.met
	x.histogram("vllm:iteration_tokens_total", m.iteration)
	x.histogram("vllm:request_prompt_tokens", m.promptTokens)
	x.histogram("vllm:request_generation_tokens", m.generationTokens)
	x.histogram("vllm:request_params_n", m.paramN)
	x.histogram("vllm:request_params_max_tokens", m.maxTokens)
	x.histogram("vllm:time_to_first_token_seconds", m.ttft)
	x.histogram("vllm:inter_token_latency_seconds", m.itl)
	x.histogram("vllm:request_time_per_output_token_seconds", m.tpot)
	x.histogram("vllm:e2e_request_latency_seconds", m.e2e)
	x.histogram("vllm:request_queue_time_seconds", m.queue)
	x.histogram("vllm:request_inference_time_seconds", m.inference)
	x.histogram("vllm:request_prefill_time_seconds", m.prefill)
	x.histogram("vllm:request_decode_time_seconds", m.decode)
}

func (s *Server) writeInfo(x *exposition, st Stats) {
	x.family("vllm:cache_config_info", "gauge")
	fmt.Fprintf(x, "vllm:cache_config_info{block_size=%q,cache_dtype=\"auto\",enable_prefix_caching=%q,engine=\"0\",gpu_memory_utilization=\"0.9\",kv_cache_size_tokens=%q,num_gpu_blocks=%q,prefix_caching_hash_algo=\"sha256\"} 1.0\n",
		strconv.Itoa(s.eng.BlockSize()), pyBool(!s.cfg.Engine.NoPrefixCache), strconv.Itoa(st.Usable*s.eng.BlockSize()), strconv.Itoa(st.Usable+1))
	if len(s.adapters) == 0 {
		return
	}
	names := strings.Join(s.eng.Adapters(nil), ",")
	i := slices.IndexFunc(s.met.loraSeries, func(l loraSeries) bool { return l.names == names })
	if i < 0 {
		i = len(s.met.loraSeries)
		s.met.loraSeries = append(s.met.loraSeries, loraSeries{names: names})
	}
	s.met.loraSeries[i].at = time.Now()
	x.family("vllm:lora_requests_info", "gauge")
	for _, l := range s.met.loraSeries {
		fmt.Fprintf(x, "vllm:lora_requests_info{max_lora=%q,running_lora_adapters=%q,waiting_lora_adapters=%q} %s\n",
			strconv.Itoa(s.cfg.MaxLoRAs), l.names, l.names, strconv.FormatFloat(float64(l.at.UnixNano())/1e9, 'e', -1, 64))
	}
}

func pyBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
