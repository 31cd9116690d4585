package vllm_test

import (
	"fmt"

	"github.com/expediterhq/expediter/vllm"
)

func ExampleChunk() {
	data := []byte(`{"id":"r1","model":"acme-8b","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`)
	var c vllm.Chunk
	if err := c.Parse(data); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.FirstToken(), string(c.FinishReason), c.Usage.Completion)
	fmt.Printf("%s%s\n", data[:c.UsageStart], data[c.UsageEnd:])
	fmt.Printf("%s%q%s\n", data[:c.ModelStart], "alias", data[c.ModelEnd:c.UsageStart])
	// Output:
	// true stop 1
	// {"id":"r1","model":"acme-8b","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}
	// {"id":"r1","model":"alias","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]
}
