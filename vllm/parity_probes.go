package vllm

// A probe is one text or conversation whose ids are compared.
type probe struct {
	name     string
	prompt   string // of a completion; empty for a conversation
	messages string // JSON
	tools    string // JSON; empty for none
}

// probes hold what tokenizers and templates are known to treat differently:
// composed and decomposed letters, scripts without spaces, emoji sequences,
// runs of digits, spaces and signs, contractions, the text of special tokens
// of the common families, and in conversations the system message, earlier
// turns, tools and their calls.
func probes() []probe {
	return []probe{
		{name: "unicode", prompt: "Zürich cafe\u0301 café ﬁn İstanbul ẞ — Ελλάδα Привет 你好，世界 こんにちは 한국어 עִבְרִית مرحبا नमस्ते ไทย 👩\u200d👩\u200d👧 🏳️\u200d🌈 𝔘𝔫𝔦 \u00a0\u2003\ufeff."},
		{name: "digits", prompt: "7 42 123 4567 89012 345678 9012345678 3.14159 1,234,567 0x1F 12:34:56 2026-01-15 ٣٤٥ १२ ½ x²"},
		{name: "code", prompt: "func main() {\n\tfor i := 0; i < 10; i++ {\n\t\tfmt.Printf(\"%d\\n\", i)\n\t}\n}\n\n\n# def f(x):\n    return {k: v for k, v in x.items() if k != '__init__'}\r\n<a href=\"https://example.org/?q=1&r=%20\">"},
		{name: "spaces", prompt: "a  b   c    d\t\te \n f\n\n\n  g \r\n\r\n   \n\t\n h     "},
		{name: "signs", prompt: "!!!???!!! ......... -------- ====>>>> (((()))) ///////// ~!@#$%^&*()_+ aaaaaaaaaaaaaaaaaaaaaaaa"},
		{name: "words", prompt: "I'll we've DON'T they'RE it's o'clock HTTPServer camelCase snake_case Straße naïve"},
		{name: "special", prompt: "<|endoftext|><|im_start|>user\nhi<|im_end|> <s>[INST] hi [/INST]</s> <|begin_of_text|><|eot_id|> <bos><start_of_turn> <｜begin▁of▁sentence｜> <|start|>user<|message|>hi<|end|> <unk><pad> <think></think>"},
		{name: "chat", messages: `[{"role":"user","content":"What does an expediter do in a kitchen?"}]`},
		{name: "chat-system", messages: `[{"role":"system","content":"You are terse.\n"},{"role":"user","content":"  Name three knives. "}]`},
		{name: "chat-turns", messages: `[{"role":"user","content":"Ein Wort auf Grüße?"},{"role":"assistant","content":"Hallo! 👋"},{"role":"user","content":[{"type":"text","text":"And in"},{"type":"text","text":"French?"}]},{"role":"assistant","content":"Bonjour."},{"role":"user","content":"Thanks <|im_end|>"}]`},
		{name: "chat-tools", tools: probeTools, messages: `[{"role":"user","content":"Is it raining in Zürich?"}]`},
		{name: "chat-calls", tools: probeTools, messages: `[{"role":"user","content":"Is it raining in Zürich?"},{"role":"assistant","content":"","tool_calls":[{"id":"call00001","type":"function","function":{"name":"weather","arguments":"{\"place\": \"Zürich\", \"days\": 2}"}}]},{"role":"tool","tool_call_id":"call00001","content":"{\"rain\": true}"}]`},
	}
}

const probeTools = `[{"type":"function","function":{"name":"weather","description":"The weather at a place.","parameters":{"type":"object","properties":{"place":{"type":"string","description":"City & country"},"days":{"type":"integer","minimum":1}},"required":["place"]}}}]`
