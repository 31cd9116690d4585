package openai_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/internal/openai"
)

// TestAgreesWithPython feeds a hostile corpus to Parse and to the parser the
// engine uses, and allows no disagreement in either direction.
func TestAgreesWithPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("python3 is needed in CI")
		}
		t.Skip("python3 is not installed")
	}
	bodies := hostile(rand.New(rand.NewPCG(1, 2)), 12000)
	var in bytes.Buffer
	for _, b := range bodies {
		reading, span := readingOf(b)
		for _, block := range [][]byte{b, reading, span} {
			in.Write(binary.BigEndian.AppendUint32(nil, uint32(len(block))))
			in.Write(block)
		}
	}
	cmd := exec.Command(python, "testdata/differ.py")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(bodies) {
		t.Fatalf("python3 gave %d verdicts, want %d", len(lines), len(bodies))
	}
	count := map[string]int{}
	for i, line := range lines {
		word, _, _ := strings.Cut(line, " ")
		count[word]++
		if word == "DISAGREE" && count[word] < 20 {
			t.Errorf("%s\nbody %.300q", line, bodies[i])
		}
	}
	t.Logf("%v", count)
	for _, word := range []string{"agree", "refused"} {
		if count[word] < len(bodies)/10 {
			t.Errorf("only %d of %d cases are %q: the corpus tests too little", count[word], len(bodies), word)
		}
	}
}

// readingOf is what Parse makes of a body, as the Python side expects it.
func readingOf(body []byte) (reading, span []byte) {
	r, err := openai.Parse(body, openai.Chat, openai.Limits{})
	got := map[string]any{"ok": err == nil}
	var e *openai.Error
	if errors.As(err, &e) {
		got["code"], got["param"] = e.Code, e.Param
	} else {
		got["model"], got["stream"], got["n"], got["max"] = r.Model, r.Stream, r.N, r.MaxTokens
		span = r.Messages
	}
	reading, _ = json.Marshal(got)
	return reading, span
}

var (
	hostileNames = []string{
		"model", "stream", "n", "max_tokens", "max_completion_tokens", "messages", "Model", "MODEL", "Stream", "N",
		"MAX_TOKENS", `mod\u0065l`, `\u006d\u006F\u0064el`, `str\u0065am`, "max_to\u212aens", `max_to\u212aens`, "\u017ftream",
		`\u017ftream`, "model ", " model", `model\u0000`, "modèl", "", "n\u0301", `\/n`, `\n`, "tools", "x", "metadata", "stop",
		"stream_options", "messages\u200b",
	}
	hostileValues = []string{
		`"acme-8b"`, `"a\u0062c"`, `""`, `null`, `true`, `false`, `1`, `0`, `-1`, `-0`, `2`, `5`, `100`, `"100"`, `100.0`, `1e2`, `1E+2`, `100e-2`,
		`1.5`, `"1.5"`, `" 5 "`, `"+5"`, `"5.0"`, `"1_0"`, `"1__0"`, `"05"`, `"0x5"`, `[]`, `{}`, `[1]`, `"true"`, `"False"`, `"yes"`, `"oN"`, `"\u212aes"`,
		`2147483647`, `2147483648`, `9223372036854775807`, `9223372036854775808`, `1e20`, `1e400`, `-1e400`, `1e-400`, `0.9999999999999999999999`,
		`1.0000000000000000001`, `4611686018427387904`, `16384`, `16385`, `128`, `129`, `NaN`, `Infinity`, `-Infinity`, `01`, `+1`, `.5`, `5.`, `1e`, `0x10`, `1_000`,
		`'a'`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ude00\ude00"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\uD83D\uDE00"`, `"\u00e9é漢😀"`, "\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\xaf\"", "\"\xf4\x90\x80\x80\"",
		"\"a\nb\"", "\"a\tb\"", "\"a\x00b\"", "\"\x7f\"", `"\x41"`, `"\u12"`, `"\`, `"abc`, `tru`, `nul`, `True`, `None`, `undefined`, `{"a":1,"a":2}`, `{"a":{"b":[1,{"c":null}]}}`,
		`[1,]`, `[,1]`, `{"a":1,}`, `{,}`, `{"a"}`, `{a:1}`, `[1 2]`, "[1]]", `"\"quoted\" \\ \/ \b\f\n\r\t"`,
	}
	// fitting are values that most often go through, by name.
	fitting = map[string][]string{
		"model":                 {`"acme-8b"`, `"a\u0062c"`, `""`, `null`, `"\ud83d\ude00é"`},
		"stream":                {`true`, `false`, `null`, `1`, `0.0`, `"oN"`, `"f"`, `1e0`},
		"n":                     {`1`, `2`, `128`, `"3"`, `4.0`, `1e1`, `true`, `null`},
		"max_tokens":            {`1`, `100`, `"1_0"`, `" 5 "`, `1e2`, `100e-2`, `2147483647`, `true`, `null`, `"007.00"`},
		"max_completion_tokens": {`1`, `7`, `"+7"`, `7.0`, `0.9999999999999999999999`, `null`},
	}
	hostileMessages = []string{
		`[{"role":"user","content":"hi"}]`, `[ { "role" : "user" , "content" : null } ]`, `[{"role":"user","content":[{"type":"text","text":"a"}]}]`,
		`[{"role":"user","content":"a","content":"b"}]`, `[{"role":"user","c\u006fntent":"a","content":"b"}]`, `[{"content":"a"}]`, `[]`, `"x"`, `null`, `[null]`,
		`[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","content":"\ud83d\ude00"}]`,
		`[{"role":"user","content":"` + "😀é\u2028" + `"},{"role":"user","content":"\u0000"}]`, `[{"Role":"user","content":"a"}]`, `[{"role":"user","content":1e3}]`,
	}
	hostileSpace = []string{"", "", "", " ", "\n", "\t", "\r\n", "  \n\t ", "\v", "\f", "\u00a0", "/**/", "//\n", "\ufeff", "\x00"}
	hostileTails = []string{"", "", "", "", "", "", " ", "\n", "\x00", "{}", ",", "null", "]", "}", "\ufeff", "//", "\v"}
)

// hostile makes n bodies, some well-formed, most with something odd.
func hostile(rnd *rand.Rand, n int) [][]byte {
	bodies := [][]byte{nil, []byte(" "), []byte("[]"), []byte(`"a"`), []byte("null"), []byte("1"), []byte("\xef\xbb\xbf{}"), []byte("{}{}"), []byte("{\x00}\x00")}
	for _, depth := range []int{1, 30, 61, 62, 63, 64, 65, 500, 9999, 10001} {
		for _, p := range []string{"[]", "{}"} {
			open, end := strings.Repeat("[", depth), strings.Repeat("]", depth)
			if p == "{}" {
				open, end = strings.Repeat(`{"a":`, depth)+"1", strings.Repeat("}", depth)
			}
			bodies = append(bodies, []byte(`{"model":"a","messages":[{"role":"user","content":"x"}],"metadata":`+open+end+`}`))
		}
	}
	for _, digits := range []int{4299, 4300, 4301} {
		bodies = append(bodies, []byte(`{"messages":[{"role":"user"}],"x":`+strings.Repeat("7", digits)+`}`))
	}
	for len(bodies) < n {
		bodies = append(bodies, hostileBody(rnd))
	}
	return bodies
}

func hostileBody(rnd *rand.Rand) []byte {
	pick := func(list []string) string { return list[rnd.IntN(len(list))] }
	plain := rnd.IntN(3) > 0 // white space and tail are usual
	space := func() string {
		if plain || rnd.IntN(12) > 0 {
			return hostileSpace[rnd.IntN(8)]
		}
		return pick(hostileSpace)
	}
	var b strings.Builder
	b.WriteString(space() + "{")
	fields := []string{`"messages":` + space() + hostileMessages[0]}
	if rnd.IntN(4) == 0 {
		fields[0] = `"messages":` + pick(hostileMessages)
	}
	used := map[string]bool{"messages": true}
	for range rnd.IntN(5) {
		name := hostileNames[rnd.IntN(5)]
		if rnd.IntN(5) == 0 {
			name = pick(hostileNames)
		}
		if used[name] && rnd.IntN(8) > 0 {
			continue
		}
		used[name] = true
		value := pick(hostileValues)
		if fit := fitting[name]; fit != nil && rnd.IntN(4) > 0 {
			value = pick(fit)
		}
		if rnd.IntN(8) == 0 {
			value = oddNumber(rnd)
		}
		fields = append(fields, space()+`"`+name+`"`+space()+":"+space()+value+space())
	}
	rnd.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	b.WriteString(strings.Join(fields, ",") + "}")
	if !plain {
		b.WriteString(pick(hostileTails))
	}
	body := []byte(b.String())
	if rnd.IntN(5) == 0 {
		body = mutate(rnd, body)
	}
	return body
}

// oddNumber makes something that may be a number, or a text that may be read
// as one.
func oddNumber(rnd *rand.Rand) string {
	const text, literal = "0015__+-.. e\u00a0\u0660", "00159..eE+-"
	alphabet, quote := []rune(text), `"`
	if rnd.IntN(2) == 0 {
		alphabet, quote = []rune(literal), ""
	}
	var b strings.Builder
	for range 1 + rnd.IntN(6) {
		b.WriteRune(alphabet[rnd.IntN(len(alphabet))])
	}
	return quote + b.String() + quote
}

// mutate flips, drops, doubles or moves a few bytes.
func mutate(rnd *rand.Rand, b []byte) []byte {
	for range 1 + rnd.IntN(3) {
		if len(b) < 2 {
			return b
		}
		i := rnd.IntN(len(b))
		switch rnd.IntN(5) {
		case 0:
			b[i] ^= 1 << rnd.IntN(8)
		case 1:
			b = append(b[:i], b[i+1:]...)
		case 2:
			b = append(b[:i], append([]byte{b[i]}, b[i:]...)...)
		case 3:
			b = b[:i]
		default:
			const odd = "{}[]\",:\\/ue0+-.\x00\x1f\x80\xff"
			b[i] = odd[rnd.IntN(len(odd))]
		}
	}
	return b
}
