package faultbench_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/registry"
)

// say answers anything with a whole chat answer of one token, as many choices
// as were asked for.
func say(g *faultbench.Got) faultbench.Script {
	n := max(g.Ask.N, 1)
	if strings.HasPrefix(string(g.Ask.Prompt), "[[") || strings.HasPrefix(string(g.Ask.Prompt), `["`) {
		n *= 2 // the tests' lists have two prompts
	}
	var choices []string
	for i := range n {
		choices = append(choices, fmt.Sprintf(`{"index":%d,"message":{"role":"assistant","content":"a"},"text":"a","finish_reason":"stop"}`, i))
	}
	return faultbench.JSON(200, fmt.Appendf(nil, `{"id":"x","object":"chat.completion","model":%q,"choices":[%s],"usage":{"prompt_tokens":7,"completion_tokens":%d,"total_tokens":%d}}`,
		g.Ask.Model, strings.Join(choices, ","), n, 7+n), n)
}

// doc is a request of which a test writes all but the model.
type doc struct {
	name, path, rest string
	status           int
	sent             string // what the replica's body must hold
	reserved         int64  // at least, in tokens; 0: whatever
}

const messages = `"messages":[{"role":"user","content":"hi"}]`

func checkDocs(t *testing.T, docs []doc) {
	t.Helper()
	h := faultbench.Open(t, faultbench.Options{Respond: say, Config: func(c *expediter.Config) {
		c.Pools[0].DefaultMaxTokens, c.Pools[0].MaxModelLen = 200, 32768
	}})
	for _, d := range docs {
		t.Run(d.name, func(t *testing.T) {
			path := d.path
			if path == "" {
				path = "chat/completions"
			}
			before, recs := h.Ledger.Len(), len(h.Records())
			began := time.Now()
			a := h.Send(t.Context(), "/v1/"+path, strings.NewReader(`{"model":"`+faultbench.Model+`",`+d.rest+`}`), nil, nil)
			if a.Status != d.status || a.Status >= 400 && a.Error == "" {
				t.Fatalf("status %d, want %d: %.300s", a.Status, d.status, a.Body)
			}
			if d := time.Since(began); d > soon {
				t.Errorf("took %v", d)
			}
			got := h.Ledger.All()[before:]
			if d.status != 200 {
				if len(got) != 0 {
					t.Errorf("the replica got it: %s", got[0].Body)
				}
				return
			}
			if len(got) != 1 || !bytes.Contains(got[0].Body, []byte(d.sent)) {
				t.Errorf("the replica got %s, want %s in it", got[0].Body, d.sent)
			}
			h.Check()
			if r := h.Records()[recs]; r.Reserved < d.reserved || d.reserved > 0 && r.Reserved > d.reserved+100 {
				t.Errorf("reserved %d, want %d and a short prompt", r.Reserved, d.reserved)
			}
		})
	}
}

// TestIRequests: prompts of all forms, n, limits and what decides the prompt.
func TestIRequests(t *testing.T) {
	checkDocs(t, []doc{
		{"I1 text", "completions", `"prompt":"hi","max_tokens":9`, 200, `"prompt":"hi"`, 9},
		{"I1 texts", "completions", `"prompt":["hi","you"],"max_tokens":9`, 200, `"prompt":["hi","you"]`, 18},
		{"I1 ids", "completions", `"prompt":[1, 2,3],"max_tokens":9`, 200, `"prompt":[1, 2,3]`, 12},
		{"I1 lists of ids", "completions", `"prompt":[[1,2],[3]],"max_tokens":9`, 200, `"prompt":[[1,2],[3]]`, 21},
		{"I1 empty list", "completions", `"prompt":[]`, 400, "", 0},
		{"I1 mixed list", "completions", `"prompt":[1,"a"]`, 400, "", 0},
		{"I1 empty inner list", "completions", `"prompt":[[1],[]]`, 400, "", 0},
		{"I2 n of 4", "", messages + `,"n":4,"max_tokens":10`, 200, `"n":4`, 40},
		{"I2 n of 2 and two prompts", "completions", `"prompt":["a","b"],"n":2,"max_tokens":10`, 200, `"n":2`, 40},
		{"I2 n of 16385", "", messages + `,"n":16385`, 400, "", 0},
		{"I2 n of 0", "", messages + `,"n":0`, 400, "", 0},
		{"I2 n of -1", "", messages + `,"n":-1`, 400, "", 0},
		{"I4 chat without a limit", "", messages, 200, `"max_tokens":200`, 200},
		{"I4 completion without a limit", "completions", `"prompt":"hi"`, 200, `"max_tokens":16`, 16},
		{"I4 completion with null", "completions", `"prompt":"hi","max_tokens":null`, 200, `"max_tokens":16`, 16},
		{"I5 both", "", messages + `,"max_tokens":900,"max_completion_tokens":30`, 200, `"max_completion_tokens":30`, 30},
		{"I5 both, other order", "", messages + `,"max_completion_tokens":900,"max_tokens":30`, 200, `"max_completion_tokens":900`, 900},
		{"I5 one null", "", messages + `,"max_completion_tokens":null,"max_tokens":30`, 200, `"max_tokens":30`, 30},
		{"I6 1.5", "", messages + `,"max_tokens":1.5`, 400, "", 0},
		{"I6 list", "", messages + `,"max_tokens":[]`, 400, "", 0},
		{"I6 words", "", messages + `,"max_tokens":"many"`, 400, "", 0},
		{"I7 above 32 bits", "", messages + `,"max_tokens":2147483648`, 400, "", 0},
		{"I7 above 64 bits", "", messages + `,"max_tokens":9223372036854775808`, 400, "", 0},
		{"I7 1e20", "", messages + `,"max_tokens":1e20`, 400, "", 0},
		{"I7 negative", "", messages + `,"max_tokens":-1000000`, 400, "", 0},
		{"I10 the client's own template", "", messages + `,"chat_template":"{{ x }}"`, 400, "", 0},
		{"I10 tools", "", messages + `,"tools":[{"type":"function","function":{"name":"f"}}]`, 200, `"tools":[`, 0},
	})
}

// TestOBodies: documents that two readers may understand in two ways are
// refused, or forwarded so that there is one.
func TestOBodies(t *testing.T) {
	nest := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	docs := []doc{
		{"O1 model twice", "", `"model":"x",` + messages, 400, "", 0},
		{"O1 escaped", "", `"mod\u0065l":"x",` + messages, 400, "", 0},
		{"O1 stream", "", messages + `,"stream":false,"stream":true`, 400, "", 0},
		{"O1 n", "", messages + `,"n":1,"n":2`, 400, "", 0},
		{"O1 max_tokens", "", messages + `,"max_tokens":1,"max_tokens":100000`, 400, "", 0},
		{"O1 messages", "", messages + `,` + messages, 400, "", 0},
		{"O1 inside a message", "", `"messages":[{"role":"user","content":"a","content":"b"}]`, 400, "", 0},
		{"O2 other case", "", `"Model":"x",` + messages, 200, `"model":"` + faultbench.Model + `"`, 0},
		{"O2 limit in capitals", "", messages + `,"max_tokens":5,"MAX_TOKENS":100000`, 200, `"max_tokens":5`, 5},
		{"O2 Kelvin sign", "", messages + `,"max_to\u212Aens":100000,"max_tokens":5`, 200, `"max_tokens":5`, 5},
		{"O2 long s", "", "\"\u017Ftream\":true," + messages, 200, ``, 0},
		{"O10 constants", "", messages + `,"temperature":NaN`, 400, "", 0},
		{"O10 Infinity", "", messages + `,"temperature":-Infinity`, 400, "", 0},
		{"O10 trailing comma", "", messages + `,`, 400, "", 0},
		{"O10 comment", "", messages + `/* a */`, 400, "", 0},
		{"O10 single quotes", "", `'messages':[]`, 400, "", 0},
		{"O10 two documents", "", messages + `}{"model":"x"`, 400, "", 0},
	}
	for _, field := range []string{"tools", "response_format", "metadata"} {
		for _, n := range []int{9_999, 10_001, 1_000_000} {
			docs = append(docs, doc{fmt.Sprintf("O4 %d lists in %s", n, field), "", messages + `,"` + field + `":` + nest("[", "]", n), 400, "", 0},
				doc{fmt.Sprintf("O4 %d objects in %s", n, field), "", messages + `,"` + field + `":` + nest(`{"a":`, "}", n), 400, "", 0})
		}
	}
	checkDocs(t, docs)
}

// TestO10WholeBodies: what is no document at all.
func TestO10WholeBodies(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Respond: say})
	for name, body := range map[string]string{
		"O10 empty": "", "O10 blank": " \n\t ", "O10 list": "[]", "O10 string": `"a"`, "O10 null": "null",
		"O10 byte order mark": "\ufeff" + `{"model":"` + faultbench.Model + `",` + messages + `}`,
		"O10 UTF-16":          "{\x00}\x00", "O10 cut": `{"model":"` + faultbench.Model,
	} {
		if a := h.Send(t.Context(), "/v1/chat/completions", strings.NewReader(body), nil, nil); a.Status != 400 || a.Error == "" {
			t.Errorf("%s: status %d: %s", name, a.Status, a.Body)
		}
	}
	if n := h.Ledger.Len(); n != 0 {
		t.Errorf("the replica got %d of them", n)
	}
}

// TestO12LargePrompts: bodies up to the limit arrive as they are, however
// they are framed.
func TestO12LargePrompts(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Respond: say, Replica: func(_ int, r *faultbench.Replica) { r.KV = 1 << 24 }})
	for _, size := range []int{32_768, 32_769, 1_000_000, 8_000_000} {
		for _, chunk := range []int{0, 1 << 10, 64 << 10, 7} {
			if chunk == 7 && size > 40_000 {
				continue
			}
			body := `{"model":"` + faultbench.Model + `","max_tokens":5,"messages":[{"role":"user","content":"`
			body += strings.Repeat("y", size-len(body)-4) + `"}]}`
			var r io.Reader = strings.NewReader(body)
			var header http.Header
			if chunk > 0 {
				r, header = &pieces{body, chunk}, http.Header{"Expect": {"100-continue"}}
			}
			n := h.Ledger.Len()
			if a := h.Send(t.Context(), "/v1/chat/completions", r, header, nil); a.Status != 200 {
				t.Fatalf("O12 %d bytes in pieces of %d: %v, status %d: %s", size, chunk, a.Err, a.Status, a.Body)
			}
			if got := h.Ledger.All()[n].Body; string(got) != body {
				t.Errorf("O12 %d bytes in pieces of %d: the replica got %d other bytes", size, chunk, len(got))
			}
		}
	}
	if a := h.Send(t.Context(), "/v1/chat/completions", strings.NewReader(strings.Repeat(" ", 8<<20+1)), nil, nil); a.Status != 413 || !strings.Contains(a.Error, fmt.Sprint(8<<20)) {
		t.Errorf("O12 above the limit: %v, status %d: %s", a.Err, a.Status, a.Body)
	}
}

// pieces reads a string in pieces, without a length.
type pieces struct {
	s string
	n int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.s == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1+rand.IntN(p.n))], p.s)
	p.s = p.s[n:]
	return n, nil
}

// TestN1N2Headers: of what a client sends only named headers reach the
// replica, and none of the gateway's own can be taken away.
func TestN1N2Headers(t *testing.T) {
	for _, key := range []string{"", "replica-key"} {
		h := faultbench.Open(t, faultbench.Options{Config: func(c *expediter.Config) { c.Pools[0].APIKey = key }})
		body, _ := (&faultbench.Request{MaxTokens: 3}).Body()
		l := h.Dial()
		fmt.Fprintf(l.Conn, "POST /v1/chat/completions?api_key=LEAK HTTP/1.1\r\nHost: LEAK\r\naUTHORIZATION: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
			"API-KEY: LEAK\r\nx-ApI-kEy: LEAK\r\nX-Goog-Api-Key: LEAK\r\ncOOKIE: LEAK\r\nProxy-Authorization: LEAK\r\nForwarded: LEAK\r\nX-Forwarded-For: LEAK\r\nUser-Agent: LEAK\r\n"+
			"X-Request-Id: LEAK\r\nIdempotency-Key: LEAK\r\nTE: trailers\r\nKeep-Alive: LEAK\r\n"+
			"Connection: Authorization, Content-Type, X-Request-Id, User-Agent, Accept, Content-Length, Host, close\r\n\r\n%s", h.Key, len(body), body)
		resp, err := http.ReadResponse(l.R, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		l.Leave(false)
		g := h.Ledger.All()[0]
		if raw := string(g.Raw); strings.Contains(raw, "LEAK") || strings.Contains(raw, h.Key) {
			t.Errorf("N1: the replica got %s", raw)
		}
		want := []string{"Content-Type", "Content-Length", "Accept", "User-Agent", "X-Request-Id"}
		auth := ""
		if key != "" {
			want, auth = append(want, "Authorization"), "Bearer "+key
		}
		for _, name := range want {
			if g.Header.Get(name) == "" {
				t.Errorf("N2: the replica did not get %s", name)
			}
		}
		if len(g.Header) != len(want) || g.Header.Get("Authorization") != auth {
			t.Errorf("the replica got %v", g.Header)
		}
		h.Close()
	}
}

// TestP4Unauthorized: every way not to have a key gets the same answer.
func TestP4Unauthorized(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{})
	var want string
	for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer xp-unknown", "Basic " + h.Key, h.Key, "Bearer " + h.Key + "x", "Bearer " + h.Key[:len(h.Key)-1], "Bearer \xff\xfe", "Bearer " + strings.ToUpper(h.Key)} {
		header := http.Header{"Authorization": {auth}}
		a := h.Send(t.Context(), "/v1/chat/completions", strings.NewReader("{}"), header, nil)
		if want == "" {
			want = a.Body
		}
		if a.Status != 401 || a.Body != want {
			t.Errorf("P4 %.20q: status %d: %s", auth, a.Status, a.Body)
		}
	}
}

// TestP6Addresses: a replica cannot be at an address that is nobody's
// business, whatever it is called.
func TestP6Addresses(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Unseen: true, Config: func(c *expediter.Config) { c.Scrape = -1 }})
	for i, url := range []string{"file:///etc/passwd", "gopher://a/", "http://user:pass@10.0.0.1/", "ftp://a/", "//a", "http://"} {
		if _, err := h.Pool.Add(registry.ReplicaConfig{Name: fmt.Sprint("x", i), URL: url}); err == nil {
			t.Errorf("P6 %s was accepted", url)
		}
	}
	h.Pool.Remove(h.Members[0])
	for i, host := range []string{"169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "0.0.0.0:1", "[fd00:ec2::254]", "224.0.0.1"} {
		m, err := h.Pool.Add(registry.ReplicaConfig{Name: fmt.Sprint("y", i), URL: "http://" + host})
		if err != nil {
			continue // refused even earlier
		}
		if a := h.Do(t.Context(), faultbench.Request{MaxTokens: 1}); a.Status < 500 || strings.Contains(a.Body, host) {
			t.Errorf("P6 %s: status %d: %s", host, a.Status, a.Body)
		}
		if log := h.Logs.String(); !strings.Contains(log, "not allowed for a replica") {
			t.Errorf("P6 %s: the log does not say why: %s", host, log)
		}
		h.Pool.Remove(m)
	}
}

// TestP7Redirects: never followed.
func TestP7Redirects(t *testing.T) {
	target := faultbench.Replica{Name: "target", Ledger: new(faultbench.Ledger), Respond: say}
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer target.Stop()
	for _, status := range []int{301, 302, 303, 307, 308} {
		redirect := func() faultbench.Script {
			sc := faultbench.JSON(status, []byte("{}"), 0)
			sc.Header.Set("Location", target.URL()+"/v1/chat/completions")
			return sc
		}
		h := faultbench.Open(t, faultbench.Options{
			Respond: func(*faultbench.Got) faultbench.Script { return redirect() },
			Replica: func(_ int, r *faultbench.Replica) {
				r.Face = func(string) *faultbench.Script {
					sc := redirect()
					return &sc
				}
			},
		})
		for _, stream := range []bool{true, false} {
			a := h.Do(t.Context(), faultbench.Request{Stream: stream, MaxTokens: 1})
			if a.Status != 502 || a.Header.Get("Location") != "" {
				t.Errorf("P7 %d: status %d, %v", status, a.Status, a.Header)
			}
			h.Members[0].Succeeded(time.Now()) // the next one is a case of its own
		}
		h.Close()
	}
	if n := target.Conns(); n != 0 {
		t.Errorf("P7: %d connections to where the redirects led", n)
	}
}

// TestP8ControlFields: fields that steer the engine do not pass, and no other
// is lost.
func TestP8ControlFields(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Respond: say})
	fields := `,"priority":-5,"cache_salt":"x","kv_transfer_params":{"remote_host":"10.0.0.1"},"vllm_xargs":{"a":1},"request_id":"r","data_parallel_rank":1,"my_own":[1],"temperature":0.5`
	if a := h.Do(t.Context(), faultbench.Request{MaxTokens: 1, Fields: fields}); !a.OK() {
		t.Fatalf("status %d: %s", a.Status, a.Body)
	}
	got := string(h.Ledger.All()[0].Body)
	for _, name := range []string{"priority", "cache_salt", "kv_transfer_params", "vllm_xargs", "request_id", "data_parallel_rank"} {
		if strings.Contains(got, name) {
			t.Errorf("P8: %s got through: %s", name, got)
		}
	}
	if !strings.Contains(got, `"my_own":[1]`) || !strings.Contains(got, `"temperature":0.5`) {
		t.Errorf("P8: the client's own fields are lost: %s", got)
	}
}
