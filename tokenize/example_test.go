package tokenize_test

import (
	"encoding/json"
	"fmt"

	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
	"github.com/expediterhq/expediter/tokenize/demo"
)

func ExampleLoad() {
	m, err := tokenize.Load(demo.Files) // os.DirFS("/models/llama") for a model of yours
	if err != nil {
		fmt.Println(err)
		return
	}
	ids, err := m.AppendChat(nil, chat.Input{
		Messages: json.RawMessage(`[{"role": "user", "content": "close the connection"}]`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := m.Tokenizer().Decode(ids)
	fmt.Println(len(ids), err)
	fmt.Println(text)
	// Output:
	// 13 <nil>
	// <|im_start|>user
	// close the connection<|im_end|>
	// <|im_start|>assistant
}

func ExampleBPE_Visit() {
	m, err := tokenize.Load(demo.Files)
	if err != nil {
		fmt.Println(err)
		return
	}
	n := 0
	err = m.Tokenizer().Visit("the server closes the connection", tokenize.Options{MaxTokens: 100}, func(ids []uint32) error {
		n += len(ids)
		return nil
	})
	fmt.Println(n, err)
	// Output: 5 <nil>
}

func ExampleByteEstimate() {
	n, err := tokenize.ByteEstimate{}.Count("about four bytes a token")
	fmt.Println(n, err)
	// Output: 6 <nil>
}

func ExampleCache() {
	m, err := tokenize.Load(demo.Files)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := tokenize.NewCache(m.Tokenizer(), 1<<20)
	ids, err := c.Append(nil, "<|im_start|>user\nhi<|im_end|>\n")
	fmt.Println(len(ids), err)
	// Output: 6 <nil>
}
