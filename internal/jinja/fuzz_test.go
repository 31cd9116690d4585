package jinja

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// fuzzLimits keep a hostile template cheap.
var fuzzLimits = Limits{Output: 1 << 16, Steps: 50_000, Build: 1 << 20}

const fuzzVars = `{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"é"}]},` +
	`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":{"x":1.5,"y":[1,2,{"z":null}]}}}]}],` +
	`"tools":[{"type":"function","function":{"name":"f","description":null,"parameters":{"type":"object","properties":{"x":{"type":"number"}}}}}],` +
	`"big":123456789012345678901234567890,"s":"Hello, Wörld 1,2","n":7,"f":2.5,"b":true,"none":null,"d":{"a":1,"b":{"c":[1]}},"add_generation_prompt":true}`

// FuzzTemplate parses and renders arbitrary templates: no panic, only typed
// errors, and the same result twice.
func FuzzTemplate(f *testing.F) {
	for _, line := range lines(f, "testdata/python.jsonl") {
		if len(line)%23 == 0 { // a sample is enough to start from
			v, err := Decode([]byte(line))
			if err != nil {
				f.Fatal(err)
			}
			src, _ := v.Map().Get("t")
			f.Add(src.Str())
		}
	}
	if paths, _ := filepath.Glob("../../../shared/golden/tokenize/templates/*.jinja"); len(paths) > 0 {
		for _, p := range paths {
			src, err := os.ReadFile(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(src))
		}
	}
	f.Fuzz(func(t *testing.T, source string) {
		got, err := renderJSON(source, fuzzVars, fuzzLimits)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("error %T: %v", err, err)
			}
		}
		again, err2 := renderJSON(source, fuzzVars, fuzzLimits)
		if got != again || (err == nil) != (err2 == nil) {
			t.Fatalf("second render differs: %q, %v and %q, %v", got, err, again, err2)
		}
		if utf8.ValidString(source) && !utf8.ValidString(got) {
			t.Fatalf("output is not valid UTF-8: %q", got)
		}
	})
}

// FuzzDecode checks that what Decode takes survives being written and read
// again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(fuzzVars))
	for _, s := range []string{`[1e400,-0.0,1E-7]`, `"\ud83d\ude00"`, `{"a":{"a":1},"a":2}`, "\"\xff\"", `[[[]]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Decode(data)
		if err != nil {
			return
		}
		w := jsonWriter{limit: 1 << 24, o: &defaultJSON}
		if err := w.value(v, 0); err != nil {
			t.Fatalf("write: %v", err)
		}
		back, err := Decode(w.out)
		if err != nil {
			t.Fatalf("read back %q: %v", w.out, err)
		}
		again := jsonWriter{limit: 1 << 24, o: &defaultJSON}
		if err := again.value(back, 0); err != nil || string(again.out) != string(w.out) {
			t.Fatalf("%q became %q, %v", w.out, again.out, err)
		}
	})
}
