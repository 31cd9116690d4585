package sim

import (
	"math"
	"reflect"
	"testing"
)

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

// TestUnmarshalValues: what strings, numbers and booleans stand for, as pydantic
// 2.13 reads them.
func TestUnmarshalValues(t *testing.T) {
	const refused int64 = -1 << 40
	integers := map[string]int64{
		`8`: 8, `-8`: -8, `-0`: 0, `8.0`: 8, `1e3`: 1000, `1000000e-3`: 1000, `1.5`: refused, `1e30`: refused, `true`: 1, `false`: 0, `[1]`: refused, `{}`: refused,
		`9223372036854775807`: math.MaxInt64, `-9223372036854775808`: math.MinInt64, `9223372036854775808`: refused, `9007199254740993`: 1<<53 + 1,
		`9007199254740993.0`: 1 << 53, `9.2e18`: 9_200_000_000_000_000_000, `9.3e18`: refused,
		`"8"`: 8, `" 8\n"`: 8, `"\u00a08\u2003"`: 8, `"+8"`: 8, `"-8"`: -8, `"08"`: 8, `"-08"`: -8, `"00"`: 0, `"1_000"`: 1000, `"1_0_0"`: 100, `"0_8"`: 8,
		`"8.0"`: 8, `"8.000"`: 8, `"-1_000.0"`: -1000, `"9007199254740993"`: 1<<53 + 1, `"9223372036854775807"`: math.MaxInt64,
		`"9223372036854775807.0"`: math.MaxInt64, `"-9223372036854775808"`: math.MinInt64,
		`""`: refused, `" "`: refused, `"+"`: refused, `"+-8"`: refused, `"--8"`: refused, `"+ 8"`: refused, `"1__0"`: refused, `"_1"`: refused, `"1_"`: refused,
		`"-_1"`: refused, `"1_.0"`: refused, `"1._0"`: refused, `"1.0_0"`: refused, `"8."`: refused, `".0"`: refused, `"."`: refused, `"1.5"`: refused,
		`"1.0.0"`: refused, `"1e3"`: refused, `"8.00e0"`: refused, `"0x10"`: refused, `"0b1"`: refused, `"true"`: refused, `"inf"`: refused, `"8\u0000"`: refused,
		`"\uff18"`: refused,
	}
	for value, want := range integers {
		var b body
		err := unmarshal([]byte(`{"seed":`+value+`}`), &b)
		if (err != nil) != (want == refused) || err == nil && *b.Seed != want {
			t.Errorf("seed %s: %v, %v; want %d, or an error for %d", value, b.seed(), err, want, refused)
		}
	}
	booleans := map[string]int{
		`true`: 1, `false`: 0, `1`: 1, `0`: 0, `-0`: 0, `1.0`: 1, `0.0`: 0, `-0.0`: 0, `10e-1`: 1, `2`: -1, `-1`: -1, `1.5`: -1, `1e30`: -1, `[1]`: -1,
		`"true"`: 1, `"TRUE"`: 1, `"t"`: 1, `"Yes"`: 1, `"y"`: 1, `"On"`: 1, `"1"`: 1, `"False"`: 0, `"f"`: 0, `"NO"`: 0, `"n"`: 0, `"off"`: 0, `"0"`: 0,
		`"1.0"`: -1, `"0.0"`: -1, `" true "`: -1, `"true\n"`: -1, `""`: -1, `"2"`: -1, `"+1"`: -1, `"01"`: -1, `"tr"`: -1,
	}
	for value, want := range booleans {
		var b body
		err := unmarshal([]byte(`{"stream":`+value+`}`), &b)
		if (err != nil) != (want < 0) || err == nil && b.Stream != (want == 1) {
			t.Errorf("stream %s: %t, %v; want %d, or an error for -1", value, b.Stream, err, want)
		}
	}
}

// TestUnmarshalReadsNamesExactly: names of another case are of other fields,
// which are ignored.
func TestUnmarshalReadsNamesExactly(t *testing.T) {
	var b body
	err := unmarshal([]byte(`{"STREAM":"perhaps","Max_Tokens":3,"model":"m","Model":"x","stream_options":{"include_usage":true,"INCLUDE_USAGE":false},"chat":true,"echoed":1,"":2}`), &b)
	if err != nil {
		t.Fatal(err)
	}
	want := body{Model: new("m"), StreamOptions: &streamOptions{IncludeUsage: true}}
	if !reflect.DeepEqual(b, want) {
		t.Errorf("unmarshal gives %+v, want %+v", b, want)
	}
}

// TestUnmarshalKeepsTheRest: null stands for nothing said, and what is read later is
// kept as it is.
func TestUnmarshalKeepsTheRest(t *testing.T) {
	var b body
	err := unmarshal([]byte(`{"n":null,"stream":null,"stream_options":null,"stop":["a","b"],"messages":[ 1, 2 ],"tools":null,"prompt":"p"}`), &b)
	if err != nil {
		t.Fatal(err)
	}
	want := body{Stop: stops{"a", "b"}, Messages: []byte("[ 1, 2 ]"), Tools: []byte("null"), Prompt: []byte(`"p"`)}
	if !reflect.DeepEqual(b, want) {
		t.Errorf("unmarshal gives %+v, want %+v", b, want)
	}
}
