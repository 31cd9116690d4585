package faultbench

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// face answers probes and scrapes.
func (r *Replica) face(path string) Script {
	if r.Face != nil {
		if sc := r.Face(path); sc != nil {
			return *sc
		}
	}
	model := r.model()
	switch path {
	case "/health":
		return JSON(http.StatusOK, []byte("\n"), 0)
	case "/version":
		return JSON(http.StatusOK, []byte(`{"version":"0.24.0"}`), 0)
	case "/v1/models":
		return JSON(http.StatusOK, fmt.Appendf(nil, `{"object":"list","data":[{"id":%q,"object":"model","max_model_len":32768}]}`, model), 0)
	case "/metrics":
		return r.scrape()
	}
	return JSON(http.StatusNotFound, []byte(`{"detail":"Not Found"}`), 0)
}

func (r *Replica) model() string { return cmp.Or(r.Model, "acme-8b") }

// page is what /metrics say.
func (r *Replica) page() []byte {
	var b strings.Builder
	model, kv := r.model(), cmp.Or(r.KV, 200_000)
	l := fmt.Sprintf("{engine=\"0\",model_name=%q}", model)
	fmt.Fprintf(&b, "process_start_time_seconds %.3f\n", float64(r.started.Load())/1e9)
	fmt.Fprintf(&b, "vllm:num_requests_running%s %d\nvllm:num_requests_waiting%s %d\n", l, r.running.Load(), l, r.Waiting)
	fmt.Fprintf(&b, "vllm:kv_cache_usage_perc%s %g\nvllm:generation_tokens_total%s %d\n", l, r.Usage, l, r.tokens.Load())
	fmt.Fprintf(&b, "vllm:iteration_tokens_total_count%s %d\n", l, r.tokens.Load())
	fmt.Fprintf(&b, "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"%d\",engine=\"0\"} 1\n", kv/16)
	if n := r.Adapters.Slots; n > 0 {
		_, running := r.Adapters.Held()
		fmt.Fprintf(&b, "vllm:lora_requests_info{max_lora=\"%d\",running_lora_adapters=%q,waiting_lora_adapters=\"\"} %d\n", n, strings.Join(running, ","), time.Now().Unix())
	}
	return []byte(b.String())
}
