package jsonscan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tokenize/internal/jsonscan"
)

func TestString(t *testing.T) {
	tests := []struct{ name, in, want, fail string }{
		{name: "plain", in: `"abc"`, want: "abc"},
		{name: "not ascii", in: `"é中😀"`, want: "é中😀"},
		{name: "escapes", in: `"a\"\\\/\b\f\n\r\t\u00e9z"`, want: "a\"\\/\b\f\n\r\té" + "z"},
		{name: "pair", in: `"\ud83d\ude00"`, want: "😀"},
		{name: "lone high", in: `"\ud83dx"`, fail: "unpaired surrogate"},
		{name: "lone low", in: `"\ude00"`, fail: "unpaired surrogate"},
		{name: "two high", in: `"\ud83d\ud83d"`, fail: "unpaired surrogate"},
		{name: "bad utf-8", in: "\"a\xff\"", fail: "invalid UTF-8"},
		{name: "bad utf-8 after escape", in: "\"\\n\xc3\"", fail: "invalid UTF-8"},
		{name: "control", in: "\"a\nb\"", fail: "control character"},
		{name: "open", in: `"abc`, fail: "without end"},
		{name: "open escape", in: `"abc\`, fail: "without end"},
		{name: "bad escape", in: `"\x"`, fail: "unknown escape"},
		{name: "bad hex", in: `"\u00g0"`, fail: "bad unicode escape"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := jsonscan.New([]byte(tt.in)).String(nil)
			if tt.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fail) {
					t.Errorf("String(%q) = %q, %v, want an error with %q", tt.in, got, err, tt.fail)
				}
				return
			}
			if err != nil || string(got) != tt.want {
				t.Errorf("String(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestObjectAndSkip(t *testing.T) {
	c := jsonscan.New([]byte(` { "a" : [1, {"x":"]}\""}] , "b":-1.5e3,"c":null , "d" : 42 } `))
	got := map[string]string{}
	err := c.Object(func(key []byte) error {
		k := string(key)
		if k == "d" {
			n, err := c.Uint32()
			if n != 42 {
				t.Errorf("Uint32 = %d, want 42", n)
			}
			return err
		}
		raw, err := c.Skip()
		got[k] = string(raw)
		return err
	})
	if err == nil {
		err = c.End()
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": `[1, {"x":"]}\""}]`, "b": "-1.5e3", "c": "null"}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("member %q = %q, want %q", k, got[k], v)
		}
	}
}

func TestUint32Refuses(t *testing.T) {
	for _, in := range []string{"", "-1", "4294967296", "99999999999999999999", "01", "x"} {
		if n, err := jsonscan.New([]byte(in)).Uint32(); err == nil {
			t.Errorf("Uint32(%q) = %d, want an error", in, n)
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":"\u00e9\ud83d\ude00"}],"c":true}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		err := jsonscan.Validate(data)
		raw, skipErr := jsonscan.New(data).Skip()
		if json.Valid(data) && skipErr != nil {
			t.Errorf("Skip(%q) failed on valid JSON: %v", data, skipErr)
		}
		if err == nil && len(raw) == 0 {
			t.Errorf("Skip(%q) found nothing in a valid document", data)
		}
	})
}
