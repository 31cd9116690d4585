package chat_test

import (
	"fmt"
	"time"

	"github.com/expediterhq/expediter/tokenize/chat"
)

func ExampleTemplate() {
	t, err := chat.Compile(
		"{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"+
			"{% if add_generation_prompt %}<assistant>{% endif %}",
		chat.Options{BOS: "<s>"},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := t.Append(nil, chat.Input{
		Messages: []byte(`[{"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]}]`),
	})
	fmt.Printf("%q %v\n", text, err)
	// Output: "<s><user>Hello\nthere</user><assistant>" <nil>
}

func ExampleError() {
	t, err := chat.Compile("{{ raise_exception('roles must alternate') }}", chat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = t.Append(nil, chat.Input{Messages: []byte(`[]`)})
	fmt.Println(err)
	// Output: chat: TemplateError: roles must alternate
}

func ExampleHarmony() {
	h := &chat.Harmony{Identity: "You are a test."}
	text, err := h.Append(nil, chat.Input{
		Messages:        []byte(`[{"role": "user", "content": "Hello"}]`),
		ReasoningEffort: "low",
		Now:             time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC),
	})
	fmt.Println(string(text), err)
	// Output:
	// <|start|>system<|message|>You are a test.
	// Knowledge cutoff: 2024-06
	// Current date: 2026-01-15
	//
	// Reasoning: low
	//
	// # Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|><|start|>user<|message|>Hello<|end|><|start|>assistant <nil>
}
