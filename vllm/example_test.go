package vllm_test

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/expediterhq/expediter/vllm"
)

func ExampleParseMetrics() {
	m, err := vllm.ParseMetrics(strings.NewReader(`vllm:num_requests_running{engine="0",model_name="acme-8b"} 37.0
vllm:num_requests_waiting{engine="0",model_name="acme-8b"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="acme-8b"} 0.25
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="27501"} 1.0
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d running, %d waiting, %.0f of %d tokens\n", m.Running, m.Waiting, m.KVUsage*float64(m.KVTokens), m.KVTokens)
	// Output: 37 running, 4 waiting, 110000 of 440000 tokens
}

func ExampleDecodeError() {
	e := vllm.DecodeError(400, []byte(`{"error":{"message":"the prompt is too long","type":"BadRequestError","param":"input_tokens","code":400}}`))
	fmt.Println(e)
	fmt.Println(e.Param+":", e.Message)
	// Output:
	// vllm: the engine answered status 400 BadRequestError
	// input_tokens: the prompt is too long
}

func ExampleDialer() {
	d := vllm.Dialer{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, a := range []string{"10.1.2.3", "192.168.1.1", "169.254.169.254"} {
		fmt.Println(a, d.Allowed(netip.MustParseAddr(a)))
	}
	// Output:
	// 10.1.2.3 true
	// 192.168.1.1 false
	// 169.254.169.254 false
}
