package vllm_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/vllm"
)

func TestParseMetrics(t *testing.T) {
	for _, c := range []struct {
		name, page string
		want       vllm.Metrics
	}{
		{"a release of 2026", `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="acme-8b"} 37.0
vllm:num_requests_waiting{engine="0",model_name="acme-8b"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="acme-8b",reason="capacity"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="acme-8b",reason="deferred"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="acme-8b"} 0.4127
vllm:prefix_cache_queries_total{engine="0",model_name="acme-8b"} 913408.0
vllm:prefix_cache_hits_total{engine="0",model_name="acme-8b"} 602112.0
vllm:prefix_cache_hits_created{engine="0",model_name="acme-8b"} 1.78e+09
vllm:prompt_tokens_total{engine="0",model_name="acme-8b"} 900000.0
vllm:prompt_tokens_created{engine="0",model_name="acme-8b"} 1.78e+09
vllm:prompt_tokens_cached_total{engine="0",model_name="acme-8b"} 600000.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="acme-8b",source="local_compute"} 300000.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="acme-8b",source="local_cache_hit"} 599999.0
vllm:generation_tokens_total{engine="0",model_name="acme-8b"} 12345.0
vllm:num_preemptions_total{engine="0",model_name="acme-8b"} 3.0
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="acme-8b"} 7.0
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="acme-8b"} 99.0
vllm:iteration_tokens_total_count{engine="0",model_name="acme-8b"} 99.0
vllm:iteration_tokens_total_sum{engine="0",model_name="acme-8b"} 12345.0
vllm:iteration_tokens_total_created{engine="0",model_name="acme-8b"} 1.78e+09
vllm:engine_sleep_state{engine="0",model_name="acme-8b",sleep_state="awake"} 1.0
vllm:engine_sleep_state{engine="0",model_name="acme-8b",sleep_state="weights_offloaded"} 0.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.9",kv_cache_size_tokens="440000",num_gpu_blocks="27501"} 1.0
vllm:lora_requests_info{max_lora="8",running_lora_adapters="old",waiting_lora_adapters=""} 1.7801e+09
vllm:lora_requests_info{max_lora="8",running_lora_adapters="t1,t7",waiting_lora_adapters="t7, t9"} 1.7802e+09
vllm:lora_requests_info{max_lora="8",running_lora_adapters="older",waiting_lora_adapters=""} 1.7800e+09
process_start_time_seconds 1.78000000025e+09
`, vllm.Metrics{
			Running: 37, Waiting: 4, Deferred: 1, Engines: 1, KVUsage: 0.4127, KVTokens: 440000, BlockSize: 16, Steps: 99, CountsSteps: true, Preemptions: 3,
			PromptTokens: 900000, CachedTokens: 600000, GeneratedTokens: 12345, MaxLoRA: 8, Adapters: []string{"t1", "t7", "t9"}, Started: 1780000000.25,
		}},
		{"old names, no engine label", `vllm:num_requests_running{model_name="m"} 2.0
vllm:num_requests_waiting{model_name="m"} 0.0
vllm:num_requests_swapped{model_name="m"} 9.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
vllm:gpu_prefix_cache_queries_total{model_name="m"} 100.0
vllm:gpu_prefix_cache_hits_total{model_name="m"} 40.0
vllm:cache_config_info{block_size="32",num_gpu_blocks="101"} 1.0
`, vllm.Metrics{Running: 2, Engines: 1, KVUsage: 0.5, KVTokens: 3200, BlockSize: 32, CachedTokens: 40}},
		{"both names: the new one counts", `vllm:gpu_cache_usage_perc{engine="0"} 0.9
vllm:kv_cache_usage_perc{engine="0"} 0.3
vllm:gpu_prefix_cache_hits_total{engine="0"} 50.0
vllm:prefix_cache_hits_total{engine="0"} 40.0
`, vllm.Metrics{Engines: 1, KVUsage: 0.3, CachedTokens: 40}},
		{"several engines", `vllm:num_requests_running{engine="0"} 10.0
vllm:num_requests_running{engine="1"} 20.0
vllm:num_requests_waiting{engine="0"} 1.0
vllm:num_requests_waiting{engine="1"} 2.0
vllm:kv_cache_usage_perc{engine="0"} 0.2
vllm:kv_cache_usage_perc{engine="1"} 0.8
vllm:iteration_tokens_total_count{engine="0"} 5.0
vllm:iteration_tokens_total_count{engine="1"} 6.0
vllm:engine_sleep_state{engine="1",sleep_state="discard_all"} 1.0
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1001"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="3001"} 1.0
`, vllm.Metrics{Running: 30, Waiting: 3, Engines: 2, KVUsage: (0.2*16000 + 0.8*48000) / 64000, KVTokens: 64000, BlockSize: 16, Steps: 11, CountsSteps: true, Asleep: true}},
		{"a series for each server process", `vllm:kv_cache_usage_perc{engine="0",pid="17"} 0.0
vllm:kv_cache_usage_perc{engine="0",pid="18"} 0.61
vllm:kv_cache_usage_perc{engine="0",pid="19"} 0.0
`, vllm.Metrics{Engines: 1, KVUsage: 0.61}},
		{"garbage in between", `vllm:num_requests_running{engine="0" 5.0
vllm:num_requests_running{engine="0"} NaN
vllm:num_requests_running{engine="0"} +Inf
vllm:num_requests_running{engine="0"} -3
vllm:num_requests_running{engine="0"} 1e300
vllm:num_requests_running{engine="0"}
vllm:num_requests_running{engine="0"} five
vllm:num_requests_running
vllm:num_requests_running{engine=0} 6
vllm:num_requests_running{engine="0
vllm:
{}
` + "\x00\xff\n\r\n" + `vllm:num_requests_running{a="}\"{",engine="0",b="\\"} 7.0 1780000000000` + "\r\n" + `vllm:kv_cache_usage_perc{engine="0"} 17
vllm:cache_config_info{block_size="None",engine="0",num_gpu_blocks="None"} 1.0
vllm:num_requests_waiting{engine="0"} 12345`, vllm.Metrics{Running: 7, Engines: 1, KVUsage: 1}},
		{"escaped adapter name", `vllm:lora_requests_info{max_lora="2",running_lora_adapters="a\"b\\c",waiting_lora_adapters=""} 1
`, vllm.Metrics{MaxLoRA: 2, Adapters: []string{`a"b\c`}}},
	} {
		m, err := vllm.ParseMetrics(iotest.OneByteReader(strings.NewReader(c.page)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if math.Abs(m.KVUsage-c.want.KVUsage) < 1e-9 {
			m.KVUsage = c.want.KVUsage
		}
		if !reflect.DeepEqual(m, c.want) {
			t.Errorf("%s: ParseMetrics =\n%+v, want\n%+v", c.name, m, c.want)
		}
	}
}

func TestParseMetricsErrors(t *testing.T) {
	for name, page := range map[string]string{"empty": "", "no engine metric": "process_start_time_seconds 1\nhttp_requests_total 5\n", "html": "<html>vllm:</html>\n"} {
		if _, err := vllm.ParseMetrics(strings.NewReader(page)); !errors.Is(err, vllm.ErrNoMetrics) {
			t.Errorf("%s: %v, want ErrNoMetrics", name, err)
		}
	}
	endless := io.MultiReader(strings.NewReader("vllm:num_requests_running 1\n"), zeros{})
	if _, err := vllm.ParseMetrics(endless); !errors.Is(err, vllm.ErrMetricsLarge) {
		t.Errorf("endless page: %v, want ErrMetricsLarge", err)
	}
	broken := errors.New("broken")
	if _, err := vllm.ParseMetrics(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("broken reader: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestMetricsState(t *testing.T) {
	at := time.Now()
	m := vllm.Metrics{
		Running: 1, Waiting: 2, KVUsage: 0.5, KVTokens: 3, BlockSize: 4, Steps: 5, CountsSteps: true, Preemptions: 6, PromptTokens: 7,
		CachedTokens: 8, GeneratedTokens: 9, MaxLoRA: 10, Adapters: []string{"a"}, Asleep: true,
	}
	want := registry.State{
		At: at, Running: 1, Waiting: 2, KVUsage: 0.5, KVTokens: 3, BlockSize: 4, Steps: 5, CountsSteps: true, Preemptions: 6, PromptTokens: 7,
		CachedTokens: 8, GeneratedTokens: 9, MaxLoRA: 10, Adapters: []string{"a"}, Asleep: true,
	}
	if got := m.State(at); !reflect.DeepEqual(got, want) {
		t.Errorf("State = %+v, want %+v", got, want)
	}
}

// largePage looks like a busy server's: mostly histogram lines.
func largePage(bytes int) string {
	var b strings.Builder
	for i := 0; b.Len() < bytes; i++ {
		for _, name := range []string{"time_to_first_token_seconds", "inter_token_latency_seconds", "request_queue_time_seconds", "iteration_tokens_total"} {
			for le := range 20 {
				fmt.Fprintf(&b, "vllm:%s_bucket{engine=\"%d\",le=\"%d.0\",model_name=\"acme/acme-8b-instruct\"} %d.0\n", name, i%8, le, i*le)
			}
		}
		fmt.Fprintf(&b, "vllm:iteration_tokens_total_count{engine=\"%d\",model_name=\"acme/acme-8b-instruct\"} %d.0\n", i%8, i)
		fmt.Fprintf(&b, "vllm:kv_cache_usage_perc{engine=\"%d\",model_name=\"acme/acme-8b-instruct\"} 0.25\n", i%8)
	}
	return b.String()
}

func BenchmarkParseMetrics(b *testing.B) {
	page := largePage(100 << 10)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := vllm.ParseMetrics(strings.NewReader(page)); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParseMetrics(f *testing.F) {
	f.Add(largePage(2000))
	f.Add(`vllm:lora_requests_info{max_lora="2",running_lora_adapters="a\"b\\c",waiting_lora_adapters="x,y"} 1` + "\n")
	f.Add(`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1001",kv_cache_size_tokens="1e99"} 1.0` + "\nprocess_start_time_seconds 5\n")
	f.Fuzz(func(t *testing.T, page string) {
		m, err := vllm.ParseMetrics(strings.NewReader(page))
		if err != nil {
			return
		}
		if !(m.KVUsage >= 0 && m.KVUsage <= 1) || m.Running < 0 || m.Waiting < 0 || m.KVTokens < 0 || m.BlockSize < 0 || m.MaxLoRA < 0 ||
			!(m.PromptTokens >= 0) || !(m.GeneratedTokens >= 0) || !(m.CachedTokens >= 0) || !(m.Started >= 0) {
			t.Fatalf("ParseMetrics(%q) = %+v", page, m)
		}
		// A page cut anywhere never shows more steps than the whole one.
		cut, err := vllm.ParseMetrics(strings.NewReader(page[:len(page)/2]))
		if err == nil && m.Steps < 1<<62 && cut.Steps > m.Steps {
			t.Fatalf("cut page shows %d steps, the whole %d", cut.Steps, m.Steps)
		}
	})
}
