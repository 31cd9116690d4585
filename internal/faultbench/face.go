package faultbench

import (
	"fmt"
	"net/http"
	"strings"
)

// face answers probes and scrapes.
func (r *Replica) face(path string) Script {
	if r.Face != nil {
		if sc := r.Face(path); sc != nil {
			return *sc
		}
	}
	model, kv := r.Model, r.KV
	if model == "" {
		model = "acme-8b"
	}
	if kv == 0 {
		kv = 200_000
	}
	switch path {
	case "/health":
		return JSON(http.StatusOK, []byte("\n"), 0)
	case "/version":
		return JSON(http.StatusOK, []byte(`{"version":"0.24.0"}`), 0)
	case "/v1/models":
		return JSON(http.StatusOK, fmt.Appendf(nil, `{"object":"list","data":[{"id":%q,"object":"model","max_model_len":32768}]}`, model), 0)
	case "/metrics":
		sc := JSON(http.StatusOK, r.metrics(model, kv), 0)
		sc.Header.Set("Content-Type", "text/plain; version=0.0.4")
		return sc
	}
	return JSON(http.StatusNotFound, []byte(`{"detail":"Not Found"}`), 0)
}

func (r *Replica) metrics(model string, kv int) []byte {
	var b strings.Builder
	l := fmt.Sprintf("{engine=\"0\",model_name=%q}", model)
	fmt.Fprintf(&b, "process_start_time_seconds %.3f\n", float64(r.started.Load())/1e9)
	fmt.Fprintf(&b, "vllm:num_requests_running%s %d\nvllm:num_requests_waiting%s 0\n", l, r.running.Load(), l)
	fmt.Fprintf(&b, "vllm:kv_cache_usage_perc%s 0\nvllm:generation_tokens_total%s %d\n", l, l, r.tokens.Load())
	fmt.Fprintf(&b, "vllm:iteration_tokens_total_count%s %d\n", l, r.tokens.Load())
	fmt.Fprintf(&b, "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"%d\",engine=\"0\"} 1\n", kv/16)
	return []byte(b.String())
}
