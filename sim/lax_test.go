package sim

import "testing"

// TestUnmarshalReadsAsTheEngine: strings and whole floats stand for numbers and
// booleans, and what means neither is refused by name.
func TestUnmarshalReadsAsTheEngine(t *testing.T) {
	for _, tt := range []struct{ name, data, param, message string }{
		{"plain", `{"max_tokens":8,"stream":true,"seed":3}`, "", ""},
		{"strings", `{"max_tokens":"8","stream":"yes","seed":" 3 "}`, "", ""},
		{"floats", `{"max_tokens":8.0,"stream":1,"seed":3e0}`, "", ""},
		{"a whole float for a boolean", `{"max_tokens":8,"stream":1.0,"seed":3}`, "", ""},
		{"hexadecimal", `{"max_tokens":"0x10"}`, "max_tokens", "max_tokens: want a whole number, got string"},
		{"beyond any int", `{"max_tokens":1e30}`, "max_tokens", "max_tokens: want a whole number, got number 1e30"},
		{"stop of another kind", `{"stop":3}`, "stop", "stop: want a list, got number"},
		{"nested", `{"max_tokens":8,"stream":"on","seed":3,"stream_options":{"include_usage":"true"}}`, "", ""},
		{"a word for a number", `{"max_tokens":"many"}`, "max_tokens", "max_tokens: want a whole number, got string"},
		{"a fraction", `{"max_tokens":1.5}`, "max_tokens", "max_tokens: want a whole number, got number 1.5"},
		{"a list for a number", `{"seed":[1]}`, "seed", "seed: want a whole number, got array"},
		{"a word for a boolean", `{"stream":"perhaps"}`, "stream", "stream: want true or false, got string"},
		{"a number for a boolean", `{"stream":2}`, "stream", "stream: want true or false, got number"},
		{"nested word", `{"stream_options":{"include_usage":"perhaps"}}`, "stream_options.include_usage",
			"stream_options.include_usage: want true or false, got string"},
		{"a word for an object", `{"stream_options":"a"}`, "stream_options", "stream_options: want an object, got string"},
		{"stop", `{"stop":[1]}`, "stop", "stop: want a string, got number"},
		{"no JSON", `{`, "", "the body is not valid JSON: unexpected end of JSON input"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b body
			err := unmarshal([]byte(tt.data), &b)
			if tt.message == "" {
				if err != nil || b.maxTokens() != 8 || !b.Stream || b.seed() != 3 {
					t.Errorf("unmarshal = %+v, %v; want 8 tokens, a stream and seed 3", b, err)
				}
				return
			}
			if err == nil || err.param != tt.param || err.message != tt.message {
				t.Errorf("error = %+v, want %q about %q", err, tt.message, tt.param)
			}
		})
	}
}
