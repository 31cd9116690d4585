package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/internal/openai"
)

// chat wraps fields in a chat request.
func chat(fields string) []byte {
	return []byte(`{"messages":[{"role":"user","content":"hi"}],"model":"m"` + fields + `}`)
}

// refusal parses a body that must be refused and returns the error.
func refusal(t *testing.T, body []byte, kind openai.Kind, lim openai.Limits) *openai.Error {
	t.Helper()
	_, err := openai.Parse(body, kind, lim)
	var e *openai.Error
	if !errors.As(err, &e) {
		t.Fatalf("Parse(%.200q) = %v, want an *Error", body, err)
	}
	if e.Status != 400 || e.Code == "" || e.Message == "" {
		t.Errorf("Parse(%.200q) = %+v, want status 400 with code and message", body, e)
	}
	return e
}

func accept(t *testing.T, body []byte, kind openai.Kind) *openai.Request {
	t.Helper()
	r, err := openai.Parse(body, kind, openai.Limits{})
	if err != nil {
		t.Fatalf("Parse(%.200q) = %v", body, err)
	}
	return r
}

func TestI1PromptForms(t *testing.T) {
	for _, c := range []struct {
		prompt string
		want   []openai.Prompt // nil: refused
	}{
		{`"a\nb"`, []openai.Prompt{{Text: "a\nb"}}},
		{`""`, []openai.Prompt{{}}},
		{`["a","é\u00e9"]`, []openai.Prompt{{Text: "a"}, {Text: "éé"}}},
		{`[1, 2,3 ]`, []openai.Prompt{{IDs: []uint32{1, 2, 3}}}},
		{`[[1],[2,0,2147483647]]`, []openai.Prompt{{IDs: []uint32{1}}, {IDs: []uint32{2, 0, 2147483647}}}},
		{`[]`, nil},
		{`[[]]`, nil},
		{`[[1],[]]`, nil},
		{`[1,"a"]`, nil},
		{`["a",1]`, nil},
		{`["a",[1]]`, nil},
		{`[[1],2]`, nil},
		{`[[1],["a"]]`, nil},
		{`[[[1]]]`, nil},
		{`[-1]`, nil},
		{`[1.0]`, nil},
		{`[1e2]`, nil},
		{`[2147483648]`, nil},
		{`[99999999999999999999]`, nil},
		{`[true]`, nil},
		{`["a",null]`, nil},
		{`{}`, nil},
		{`1`, nil},
		{`true`, nil},
		{`null`, nil},
	} {
		body := []byte(`{"model":"m","prompt":` + c.prompt + `}`)
		if c.want == nil {
			if e := refusal(t, body, openai.Completion, openai.Limits{}); !strings.HasPrefix(e.Param, "prompt") {
				t.Errorf("prompt %s: param %q, want prompt", c.prompt, e.Param)
			}
			continue
		}
		r := accept(t, body, openai.Completion)
		if !samePrompts(r.Prompts, c.want) {
			t.Errorf("prompt %s = %v, want %v", c.prompt, r.Prompts, c.want)
		}
		if f, _ := r.Field("prompt"); string(f.Value) != c.prompt {
			t.Errorf("prompt %s: bytes %s", c.prompt, f.Value)
		}
	}
	refusal(t, []byte(`{"model":"m"}`), openai.Completion, openai.Limits{})
}

func samePrompts(a, b []openai.Prompt) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Text != b[i].Text || !reflect.DeepEqual(a[i].IDs, b[i].IDs) {
			return false
		}
	}
	return true
}

func TestI2Choices(t *testing.T) {
	prompts := `{"prompt":["a","b","c","d","e","f","g","h"],"n":`
	for _, c := range []struct {
		n    string
		maxN int
		want int // 0: refused
	}{
		{"1", 0, 1}, {"16", 0, 16}, {`"2"`, 0, 2}, {"null", 0, 1}, {"128", 0, 128}, {"129", 0, 0},
		{"16384", 16384, 16384}, {"16385", 16384, 0}, {"0", 0, 0}, {"-1", 0, 0}, {"1.5", 0, 0}, {"[]", 0, 0},
		{"9223372036854775807", 0, 0}, {"-9223372036854775809", 0, 0}, {"1e20", 0, 0}, {`"a"`, 0, 0},
	} {
		lim := openai.Limits{N: c.maxN}
		if c.want == 0 {
			if e := refusal(t, []byte(prompts+c.n+"}"), openai.Completion, lim); e.Param != "n" {
				t.Errorf("n %s: param %q", c.n, e.Param)
			}
			continue
		}
		r, err := openai.Parse([]byte(prompts+c.n+"}"), openai.Completion, lim)
		if err != nil || r.N != c.want || r.Sequences() != 8*c.want {
			t.Errorf("n %s = %+v, %v, want %d", c.n, r, err, c.want)
		}
	}
}

func TestI4I5OutputLimit(t *testing.T) {
	const refused = -2
	for _, c := range []struct {
		fields string
		kind   openai.Kind
		want   int
		field  string
	}{
		{``, openai.Chat, -1, ""},
		{``, openai.Completion, -1, ""},
		{`,"max_tokens":null`, openai.Completion, -1, ""},
		{`,"max_tokens":5`, openai.Chat, 5, "max_tokens"},
		{`,"max_tokens":5,"max_completion_tokens":9`, openai.Chat, 9, "max_completion_tokens"},
		{`,"max_completion_tokens":9,"max_tokens":5`, openai.Chat, 9, "max_completion_tokens"},
		{`,"max_completion_tokens":null,"max_tokens":5`, openai.Chat, 5, "max_tokens"},
		{`,"max_completion_tokens":9,"max_tokens":null`, openai.Chat, 9, "max_completion_tokens"},
		{`,"max_completion_tokens":9,"max_tokens":5`, openai.Completion, 5, "max_tokens"},
		{`,"max_completion_tokens":[],"max_tokens":5`, openai.Completion, 5, "max_tokens"},
		{`,"max_completion_tokens":0,"max_tokens":5`, openai.Chat, refused, "max_completion_tokens"},
		{`,"max_completion_tokens":9,"max_tokens":0`, openai.Chat, refused, "max_tokens"},
		{`,"max_completion_tokens":9,"max_tokens":"x"`, openai.Chat, refused, "max_tokens"},
		{`,"max_tokens":0`, openai.Completion, refused, "max_tokens"},
		{`,"max_tokens":0,"echo":true`, openai.Completion, 0, "max_tokens"},
		{`,"max_tokens":-5`, openai.Completion, refused, "max_tokens"},
	} {
		body := chat(c.fields)
		if c.kind == openai.Completion {
			body = []byte(`{"prompt":"p"` + c.fields + `}`)
		}
		if c.want == refused {
			if e := refusal(t, body, c.kind, openai.Limits{}); e.Param != c.field {
				t.Errorf("%s: param %q, want %q", c.fields, e.Param, c.field)
			}
			continue
		}
		if r := accept(t, body, c.kind); r.MaxTokens != c.want || r.MaxField != c.field {
			t.Errorf("%s: limit %d from %q, want %d from %q", c.fields, r.MaxTokens, r.MaxField, c.want, c.field)
		}
	}
}

// TestI6RecordedTable holds Parse to verdicts recorded from the engine's parser.
func TestI6RecordedTable(t *testing.T) {
	data, err := os.ReadFile("testdata/lax.json")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		JSON  string
		OK    bool
		Value *string
	}
	var table struct{ Int, Bool []row }
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Int) < 80 || len(table.Bool) < 45 {
		t.Fatalf("table has %d and %d rows", len(table.Int), len(table.Bool))
	}
	for _, c := range table.Int {
		want := -1
		ok := c.OK
		if ok && c.Value != nil {
			v, err := strconv.ParseInt(*c.Value, 10, 64)
			ok = err == nil && v >= 0 && v <= openai.MaxLimit
			want = int(v)
		}
		r, err := openai.Parse([]byte(`{"prompt":"p","echo":true,"max_tokens":`+c.JSON+`}`), openai.Completion, openai.Limits{})
		if (err == nil) != ok || ok && r.MaxTokens != want {
			t.Errorf("max_tokens %s: %+v, %v, want %v %v", c.JSON, r, err, ok, want)
		}
	}
	for _, c := range table.Bool {
		r, err := openai.Parse(chat(`,"stream":`+c.JSON), openai.Chat, openai.Limits{})
		if (err == nil) != c.OK || c.OK && r.Stream != (c.Value != nil && *c.Value == "true") {
			t.Errorf("stream %s: %+v, %v, want %+v", c.JSON, r, err, c)
		}
	}
}

func TestI7HugeLimits(t *testing.T) {
	for _, v := range []string{"2147483648", "9223372036854775807", "9223372036854775808", "1e20", strings.Repeat("9", 4000)} {
		if e := refusal(t, chat(`,"max_tokens":`+v), openai.Chat, openai.Limits{}); e.Param != "max_tokens" {
			t.Errorf("max_tokens %.30s: param %q", v, e.Param)
		}
	}
	r := accept(t, chat(`,"max_tokens":2147483647`), openai.Chat)
	lim := int64(r.MaxTokens)
	if product := lim * 16384 * 1024; product/1024/16384 != lim {
		t.Error("the largest limit times the largest n and number of prompts overflows")
	}
}

func TestI10FieldsThatChangeThePrompt(t *testing.T) {
	r := accept(t, chat(`,"tools":[{"type":"function"}],"tool_choice":"auto","chat_template_kwargs":{"a":1},"documents":[{}],`+
		`"reasoning_effort":"low","continue_final_message":true,"add_generation_prompt":false,"add_special_tokens":true,"chat_template":"x",`+
		`"truncate_prompt_tokens":5,"prompt_logprobs":0,"return_token_ids":true,"echo":true,"logprobs":true,"user":"u"`), openai.Chat)
	for _, c := range []struct{ name, got, want string }{
		{"tools", string(r.Tools), `[{"type":"function"}]`}, {"tool_choice", string(r.ToolChoice), `"auto"`},
		{"chat_template_kwargs", string(r.Kwargs), `{"a":1}`}, {"documents", string(r.Documents), `[{}]`},
		{"reasoning_effort", string(r.Effort), `"low"`},
	} {
		if c.got != c.want {
			t.Errorf("%s = %s, want %s", c.name, c.got, c.want)
		}
	}
	if !r.ContinueFinalMessage || r.AddGenerationPrompt == nil || *r.AddGenerationPrompt || r.AddSpecialTokens == nil || !*r.AddSpecialTokens ||
		!r.ChatTemplate || !r.Truncate || !r.PromptLogprobs || !r.ReturnTokenIDs || !r.Echo || r.Multimodal {
		t.Errorf("flags = %+v", r)
	}
	null := accept(t, chat(`,"tools":null,"tool_choice":null,"chat_template_kwargs":null,"documents":null,"chat_template":null,"add_generation_prompt":null,"stop":null`), openai.Chat)
	if null.Tools != nil || null.Kwargs != nil || null.ChatTemplate || null.AddGenerationPrompt != nil {
		t.Errorf("nulls = %+v, want all absent", null)
	}
	for _, fields := range []string{`,"tools":[]`, `,"tools":[1]`, `,"tools":{}`, `,"documents":{}`, `,"chat_template_kwargs":[]`, `,"chat_template":1`, `,"tool_choice":1`} {
		refusal(t, chat(fields), openai.Chat, openai.Limits{})
	}
}

func TestContentParts(t *testing.T) {
	for _, c := range []struct {
		content    string
		multimodal bool
	}{
		{`"a"`, false}, {`null`, false}, {`[]`, false}, {`[{"type":"text","text":"a"}]`, false}, {`["a"]`, false},
		{`[{"text":"a","type":"text"},{"type":"image_url","image_url":{"url":"x"}}]`, true},
		{`[{"type":"text","text":"a","image_url":"x"}]`, true}, {`[{"image_url":"x"}]`, true}, {`[{"type":"text","text":null}]`, true},
	} {
		r := accept(t, []byte(`{"messages":[{"role":"user","content":`+c.content+`}]}`), openai.Chat)
		if r.Multimodal != c.multimodal {
			t.Errorf("content %s: multimodal %v, want %v", c.content, r.Multimodal, c.multimodal)
		}
	}
	for content, param := range map[string]string{`1`: "messages[1].content", `{}`: "messages[1].content", `[1]`: "messages[1].content", `[null]`: "messages[1].content"} {
		e := refusal(t, []byte(`{"messages":[{"role":"user"},{"role":"user","content":`+content+`}]}`), openai.Chat, openai.Limits{})
		if e.Param != param {
			t.Errorf("content %s: param %q, want %q", content, e.Param, param)
		}
	}
}

func TestStreamOptions(t *testing.T) {
	for _, c := range []struct {
		fields                       string
		present, include, continuous bool
	}{
		{``, false, false, false},
		{`,"stream_options":null`, false, false, false},
		{`,"stream_options":{}`, true, false, false},
		{`,"stream_options":{"include_usage":true}`, true, true, false},
		{`,"stream_options":{"include_usage":false,"continuous_usage_stats":1,"x":[]}`, true, false, true},
		{`,"stream_options":{"include_usage":null}`, true, false, false},
	} {
		r := accept(t, chat(c.fields), openai.Chat)
		if r.StreamOptionsPresent != c.present || r.IncludeUsage != c.include || r.ContinuousUsage != c.continuous {
			t.Errorf("%s = %v %v %v", c.fields, r.StreamOptionsPresent, r.IncludeUsage, r.ContinuousUsage)
		}
	}
	if e := refusal(t, chat(`,"stream_options":{"include_usage":"maybe"}`), openai.Chat, openai.Limits{}); e.Param != "stream_options.include_usage" {
		t.Errorf("param %q", e.Param)
	}
	refusal(t, chat(`,"stream_options":[]`), openai.Chat, openai.Limits{})
}

func TestO1DuplicateKeys(t *testing.T) {
	for _, body := range []string{
		`{"model":"a","model":"b","messages":[{"role":"user"}]}`,
		`{"model":"a","mod\u0065l":"b","messages":[{"role":"user"}]}`,
		`{"\u006dodel":"a","mod\u0065l":"b","messages":[{"role":"user"}]}`,
		`{"messages":[{"role":"user"}],"messages":[{"role":"user"}]}`,
		`{"messages":[{"role":"user","role":"system"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}]}`,
		`{"messages":[{"role":"user"}],"stream":true,"stream":false}`,
		`{"messages":[{"role":"user"}],"n":1,"n":1}`,
		`{"messages":[{"role":"user"}],"metadata":{"a":{"b":1,"b":2}}}`,
	} {
		if e := refusal(t, []byte(body), openai.Chat, openai.Limits{}); e.Code != openai.CodeDuplicateKey {
			t.Errorf("%s: code %q, want %q", body, e.Code, openai.CodeDuplicateKey)
		}
	}
	// In a large object too, and the same name in different objects is fine.
	var many strings.Builder
	for i := range 100 {
		many.WriteString(`"k` + strconv.Itoa(i) + `":{"a":1},`)
	}
	accept(t, chat(`,"metadata":{`+many.String()+`"a":1}`), openai.Chat)
	for _, dup := range []string{"k3", "k57", "k99", `\u006b99`} {
		if e := refusal(t, chat(`,"metadata":{`+many.String()+`"`+dup+`":1}`), openai.Chat, openai.Limits{}); e.Code != openai.CodeDuplicateKey {
			t.Errorf("%s: code %q", dup, e.Code)
		}
	}
}

func TestO2OnlyExactNames(t *testing.T) {
	r := accept(t, chat(`,"Model":"b","MODEL":"c","max_tokens":5,"MAX_TOKENS":100000,"max_to`+"\u212a"+`ens":7,"`+"\u017f"+`tream":true,"N":3`), openai.Chat)
	if r.Model != "m" || r.MaxTokens != 5 || r.Stream || r.N != 1 {
		t.Errorf("model %q, limit %d, stream %v, n %d, want m, 5, false, 1", r.Model, r.MaxTokens, r.Stream, r.N)
	}
	if r := accept(t, []byte(`{"mod\u0065l":"a\u0062c","m\u0065ssages":[{"r\u006fle":"user"}]}`), openai.Chat); r.Model != "abc" || !bytes.Contains(r.Messages, []byte("user")) {
		t.Errorf("escaped names: model %q, messages %s", r.Model, r.Messages)
	}
}

func TestO4DeepNesting(t *testing.T) {
	for _, depth := range []int{63, 64, 9999, 1000000} {
		for _, field := range []string{"tools", "response_format", "metadata"} {
			for _, p := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
				e := refusal(t, chat(`,"`+field+`":`+strings.Repeat(p[0], depth+1)+"1"+strings.Repeat(p[1], depth+1)), openai.Chat, openai.Limits{})
				if field != "tools" && e.Code != openai.CodeTooMany {
					t.Errorf("%s %d levels: code %q", field, depth, e.Code)
				}
			}
		}
	}
	accept(t, chat(`,"metadata":`+strings.Repeat("[", 63)+strings.Repeat("]", 63)), openai.Chat)
}

func TestO10NotQuiteJSON(t *testing.T) {
	ok := string(chat(""))
	for name, body := range map[string]string{
		"empty": "", "space": " \n", "two objects": ok + ok, "comma after": ok + ",", "trailing comma": strings.TrimSuffix(ok, "}") + ",}",
		"comment": "/* */" + ok, "line comment": ok + "// x", "byte order mark": "\ufeff" + ok, "array": "[" + ok + "]", "string": `"a"`,
		"nan": string(chat(`,"x":NaN`)), "infinity": string(chat(`,"x":Infinity`)), "minus infinity": string(chat(`,"x":-Infinity`)),
		"single quotes": `{'model':'a'}`, "nul": ok + "\x00", "utf-16": "{\x00}\x00", "bad utf-8": string(chat(`,"x":"` + "\xff" + `"`)),
		"bad utf-8 name": string(chat(`,"` + "\xff" + `":1`)), "lone surrogate": string(chat(`,"x":"\ud83d"`)), "two low surrogates": string(chat(`,"x":"\ude00\ude00"`)), "two high ones": string(chat(`,"x":"\ud83d\ud83d"`)), "control": string(chat(`,"x":"` + "\n" + `"`)),
		"surrogate bytes": string(chat(`,"x":"` + "\xed\xa0\x80" + `"`)), "cut": ok[:len(ok)-1], "leading zero": string(chat(`,"x":01`)),
		"cut escape": `{"a\`, "cut string": `{"a`, "cut number": `{"a":-`,
	} {
		if e := refusal(t, []byte(body), openai.Chat, openai.Limits{}); e.Code != openai.CodeInvalidJSON {
			t.Errorf("%s: code %q, want %q", name, e.Code, openai.CodeInvalidJSON)
		}
	}
}

func TestLimits(t *testing.T) {
	lim := openai.Limits{Depth: 6, Keys: 8, Messages: 2, Parts: 2, Tools: 2, Prompts: 2, Stop: 2, N: 2}
	message := `{"role":"user","content":["a","b"]}`
	fits := `{"messages":[` + message + `,` + message + `],"tools":[{},{}],"stop":["a","b"],"n":2,"a":1,"b":2,"c":3,"d":4}`
	if _, err := openai.Parse([]byte(fits), openai.Chat, lim); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{`"b"]}`, `"b","c"]}`}, {`{},{}`, `{},{},{}`}, {`["a","b"],"n"`, `["a","b","c"],"n"`}, {`"d":4`, `"d":4,"e":5`}, {message + "]", message + "," + message + "]"},
	} {
		body := strings.Replace(fits, c[0], c[1], 1)
		if body == fits {
			t.Fatalf("%s is not in the body", c[0])
		}
		if e := refusal(t, []byte(body), openai.Chat, lim); e.Code != openai.CodeTooMany {
			t.Errorf("%s: %+v, want %q", c[1], e, openai.CodeTooMany)
		}
	}
	for _, body := range []string{`{"prompt":["a","b","c"]}`, `{"prompt":[[1],[2],[3]]}`} {
		if e := refusal(t, []byte(body), openai.Completion, lim); e.Code != openai.CodeTooMany {
			t.Errorf("%s: %+v", body, e)
		}
	}
}

func TestP8ControlFields(t *testing.T) {
	var body strings.Builder
	for _, name := range openai.Controls() {
		body.WriteString(`,"` + name + `":"x"`)
	}
	body.WriteString(`,"k\u0076_transfer_parameters":1,"temperature":0.5`)
	r := accept(t, chat(strings.Replace(strings.Replace(body.String(), `"documents":"x"`, `"documents":[]`, 1), `"kv_transfer_params"`, `"kv_tr\u0061nsfer_params"`, 1)), openai.Chat)
	control := map[string]bool{}
	for _, f := range r.Fields {
		if f.Control {
			control[f.Name] = true
		}
	}
	if len(control) != len(openai.Controls()) {
		t.Errorf("control fields %v, want %v", control, openai.Controls())
	}
	got := string(r.Rewrite(nil, openai.Edits{Drop: openai.Controls()}))
	if want := string(chat(`,"k\u0076_transfer_parameters":1,"temperature":0.5`)); got != want {
		t.Errorf("Rewrite = %s, want %s", got, want)
	}
}

// TestErrorsHoldNoText marks every string of a body and looks for the mark in
// the errors of many broken versions of it.
func TestErrorsHoldNoText(t *testing.T) {
	const mark = "zqxj"
	body := []byte(`{"model":"zqxj","messages":[{"role":"zqxj","content":"zqxj zqxj"}],"stop":["zqxj"],"zqxj":{"zqxj":"zqxj","zqxj2":1},"n":"zqxj","max_tokens":"zqxj"}`)
	check := func(b []byte) {
		if _, err := openai.Parse(b, openai.Chat, openai.Limits{}); err != nil && strings.Contains(err.Error(), mark) {
			t.Fatalf("Parse(%s) = %v", b, err)
		}
	}
	for i := range body {
		check(body[:i])
		for _, c := range []byte("\x00\xff\"\\{}[]:,1") {
			b := append([]byte(nil), body...)
			b[i] = c
			check(b)
		}
	}
}

func TestParseAllocations(t *testing.T) {
	body := longChat(32 << 10)
	if n := testing.AllocsPerRun(100, func() { _, _ = openai.Parse(body, openai.Chat, openai.Limits{}) }); n > 3 {
		t.Errorf("Parse allocates %v times, want at most 3", n)
	}
	r, _ := openai.Parse(body, openai.Chat, openai.Limits{})
	dst := make([]byte, 0, 2*len(body))
	e := openai.Edits{Model: "base", MaxTokens: 7, IncludeUsage: true}
	if n := testing.AllocsPerRun(100, func() { dst = r.Rewrite(dst[:0], e) }); n > 0 {
		t.Errorf("Rewrite allocates %v times, want none", n)
	}
}
