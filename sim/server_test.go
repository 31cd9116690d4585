package sim_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/sim"
)

// fast is a replica quick enough for tests over real sockets.
func fast(t *testing.T, cfg sim.Config) (*sim.Server, *httptest.Server) {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "acme-8b"
	}
	if cfg.Speed == 0 {
		cfg.Speed = 100
	}
	srv := sim.NewServer(cfg)
	hs := httptest.NewServer(srv)
	t.Cleanup(func() { hs.Close(); srv.Close() })
	return srv, hs
}

func post(t *testing.T, url, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var created = regexp.MustCompile(`"created":\d+`)

// words hides what is generated and when, so that the frames can be compared.
func words(s string) string {
	s = created.ReplaceAllString(s, `"created":0`)
	return regexp.MustCompile(` [a-z]{3}`).ReplaceAllString(s, "_")
}

func TestChatStreamFrames(t *testing.T) {
	_, hs := fast(t, sim.Config{})
	resp := post(t, hs.URL+"/v1/chat/completions",
		`{"model":"acme-8b","messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`,
		"X-Request-Id", "r1")
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("Content-Type = %q", got)
	}
	const head = `data: {"id":"chatcmpl-r1","object":"chat.completion.chunk","created":0,"model":"acme-8b","choices":[`
	want := head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}` + "\n\n" +
		head + `{"index":0,"delta":{"content":"_"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n" +
		head + `{"index":0,"delta":{"content":"_"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}` + "\n\n" +
		head + `],"usage":{"prompt_tokens":6,"total_tokens":8,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}` + "\n\n" +
		"data: [DONE]\n\n"
	if got := words(readAll(t, resp)); got != want {
		t.Errorf("stream =\n%s\nwant\n%s", got, want)
	}
}

func TestCompletionStreamFrames(t *testing.T) {
	_, hs := fast(t, sim.Config{HideCachedTokens: true})
	resp := post(t, hs.URL+"/v1/completions",
		`{"prompt":["abcd","efghijkl"],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
		"X-Request-Id", "r2")
	const head = `data: {"id":"cmpl-r2","object":"text_completion","created":0,"model":"acme-8b","choices":[`
	const tail = `,"text":"_","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}],"usage":{"prompt_tokens":`
	want := head + `{"index":0` + tail + `1,"total_tokens":2,"completion_tokens":1}}` + "\n\n" +
		head + `{"index":1` + tail + `2,"total_tokens":3,"completion_tokens":1}}` + "\n\n" +
		head + `],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}}` + "\n\n" +
		"data: [DONE]\n\n"
	if got := words(readAll(t, resp)); got != want {
		t.Errorf("stream =\n%s\nwant\n%s", got, want)
	}
}

func TestAnswers(t *testing.T) {
	_, hs := fast(t, sim.Config{Aliases: []string{"other"}, Adapters: map[string]string{"t1": "/t1"}})
	const usage = `"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}`
	chat := func(i, n int) string {
		return fmt.Sprintf(`{"index":%d,"message":{"role":"assistant","content":"%s","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}`, i, strings.Repeat("_", n))
	}
	tests := []struct {
		name, path, body, want string
	}{
		{"chat n", "/v1/chat/completions", `{"model":"other","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":3,"max_tokens":9,"n":2}`,
			`{"id":"chatcmpl-x","object":"chat.completion","created":0,"model":"acme-8b","choices":[` + chat(0, 3) + `,` + chat(1, 3) + `],` +
				fmt.Sprintf(usage, 6, 12, 6) + `,"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}`},
		{"completion echo", "/v1/completions", `{"model":"t1","prompt":"a \"b\"","echo":true,"max_tokens":1}`,
			`{"id":"cmpl-x","object":"text_completion","created":0,"model":"t1","choices":[{"index":0,"text":"a \"b\"_","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}],` +
				fmt.Sprintf(usage, 2, 3, 1) + `,"kv_transfer_params":null}`},
		{"completion default limit, token ids", "/v1/completions", `{"model":"","prompt":[1,2,3]}`,
			`{"id":"cmpl-x","object":"text_completion","created":0,"model":"acme-8b","choices":[{"index":0,"text":"________________","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}],` +
				fmt.Sprintf(usage, 3, 19, 16) + `,"kv_transfer_params":null}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := words(readAll(t, post(t, hs.URL+tt.path, tt.body, "X-Request-Id", "x")))
			if got != tt.want {
				t.Errorf("answer =\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	_, hs := fast(t, sim.Config{MaxModelLen: 64})
	long := strings.Repeat("x", 4*64)
	tests := []struct {
		name, path, body   string
		status             int
		typ, param, header string
	}{
		{"unknown model", "/v1/completions", `{"model":"no","prompt":"a"}`, 404, "NotFoundError", "model", "application/json"},
		{"not json", "/v1/completions", `{`, 400, "Bad Request", "", "application/json"},
		{"content type", "/v1/completions", `{"prompt":"a"}`, 400, "Bad Request", "", "text/plain"},
		{"no prompt", "/v1/completions", `{}`, 400, "Bad Request", "", "application/json"},
		{"no messages", "/v1/chat/completions", `{}`, 400, "Bad Request", "", "application/json"},
		{"too long", "/v1/completions", `{"prompt":"` + long + `","max_tokens":1}`, 400, "BadRequestError", "input_tokens", "application/json"},
		{"too long without a limit", "/v1/chat/completions", `{"messages":[{"role":"user","content":"` + long + `"}]}`, 400, "BadRequestError", "input_tokens", "application/json"},
		{"limit above context", "/v1/completions", `{"prompt":"a","max_tokens":65}`, 400, "BadRequestError", "max_tokens", "application/json"},
		{"zero limit", "/v1/completions", `{"prompt":"a","max_tokens":0}`, 400, "BadRequestError", "max_tokens", "application/json"},
		{"n", "/v1/completions", `{"prompt":"a","n":0}`, 400, "BadRequestError", "n", "application/json"},
		{"negative id", "/v1/completions", `{"prompt":[1,-2]}`, 400, "BadRequestError", "prompt", "application/json"},
		{"empty tools", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"tools":[ ]}`, 400, "BadRequestError", "tools", "application/json"},
		{"stream options", "/v1/completions", `{"prompt":"a","stream_options":{}}`, 400, "BadRequestError", "stream_options", "application/json"},
		{"template", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"chat_template":"x"}`, 400, "BadRequestError", "chat_template", "application/json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := post(t, hs.URL+tt.path, tt.body, "Content-Type", tt.header)
			var got struct {
				Error struct {
					Message, Type string
					Param         *string
					Code          int
				}
			}
			if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
				t.Fatal(err)
			}
			e := got.Error
			param := ""
			if e.Param != nil {
				param = *e.Param
			}
			if resp.StatusCode != tt.status || e.Code != tt.status || e.Type != tt.typ || param != tt.param || e.Message == "" {
				t.Errorf("status %d, error %+v with param %q, want %d, %s, %q", resp.StatusCode, e, param, tt.status, tt.typ, tt.param)
			}
		})
	}
}

func TestStopString(t *testing.T) {
	_, hs := fast(t, sim.Config{})
	type answer struct {
		Choices []struct {
			Text         string
			FinishReason string `json:"finish_reason"`
			StopReason   string `json:"stop_reason"`
		}
		Usage struct {
			Completion int `json:"completion_tokens"`
		}
	}
	ask := func(extra string) (a answer) {
		body := `{"prompt":"tell me","ignore_eos":true,"max_tokens":20` + extra + `}`
		if err := json.Unmarshal([]byte(readAll(t, post(t, hs.URL+"/v1/completions", body))), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	whole := ask("").Choices[0].Text
	if len(whole) != 80 {
		t.Fatalf("20 tokens are %d bytes long, want 80", len(whole))
	}
	a := ask(`,"stop":["` + whole[30:36] + `"]`)
	if c := a.Choices[0]; c.Text != whole[:30] || c.FinishReason != "stop" || c.StopReason != whole[30:36] || a.Usage.Completion != 9 {
		t.Errorf("answer = %+v, want text %q after 9 tokens", a, whole[:30])
	}
}

func TestPrefixHitsAreReported(t *testing.T) {
	srv, hs := fast(t, sim.Config{})
	prompt := strings.Repeat("0123456789abcdef", 16) // 64 tokens, 4 blocks
	for i, want := range []int{0, 48, 48} {
		body := readAll(t, post(t, hs.URL+"/v1/completions", `{"prompt":"`+prompt+`","max_tokens":1}`))
		if !strings.Contains(body, fmt.Sprintf(`"cached_tokens":%d}`, want)) {
			t.Errorf("answer %d = %s, want %d cached tokens: the last token is always computed", i, body, want)
		}
	}
	if body := readAll(t, post(t, hs.URL+"/v1/completions", `{"prompt":"`+prompt+`","max_tokens":1,"cache_salt":"s"}`)); !strings.Contains(body, `"cached_tokens":0}`) {
		t.Errorf("salted answer = %s, want no cached tokens", body)
	}
	if got := srv.Requests()[1].CachedTokens; got != 48 {
		t.Errorf("ledger says %d cached tokens, want 48", got)
	}
	if st := srv.Stats(); st.Queries != 256 || st.Hits != 96 || st.Free != st.Usable {
		t.Errorf("Stats = %+v, want 256 tokens looked up, 96 found, all blocks free", st)
	}
}

func TestMetricsNames(t *testing.T) {
	_, hs := fast(t, sim.Config{KVTokens: 1600, MaxModelLen: 1600, Adapters: map[string]string{"t1": "/t1"}})
	post(t, hs.URL+"/v1/completions", `{"model":"t1","prompt":"abcdabcd","max_tokens":3}`)
	resp, err := http.Get(hs.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := readAll(t, resp)
	for _, line := range []string{
		`vllm:num_requests_running{engine="0",model_name="acme-8b"} 0.0`,
		`vllm:num_requests_waiting{engine="0",model_name="acme-8b"} 0.0`,
		`vllm:num_requests_waiting_by_reason{engine="0",model_name="acme-8b",reason="deferred"} 0.0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="acme-8b"} 0.0`,
		`vllm:prefix_cache_queries_total{engine="0",model_name="acme-8b"} 2.0`,
		`vllm:prompt_tokens_total{engine="0",model_name="acme-8b"} 2.0`,
		`vllm:generation_tokens_total{engine="0",model_name="acme-8b"} 3.0`,
		`vllm:request_success_total{engine="0",model_name="acme-8b",finished_reason="length"} 1.0`,
		`vllm:iteration_tokens_total_count{engine="0",model_name="acme-8b"} 3.0`,
		`vllm:iteration_tokens_total_sum{engine="0",model_name="acme-8b"} 4.0`,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="acme-8b"} 1.0`,
		`vllm:inter_token_latency_seconds_count{engine="0",model_name="acme-8b"} 2.0`,
		`kv_cache_size_tokens="1600",num_gpu_blocks="101"`,
		`vllm:lora_requests_info{max_lora="8",running_lora_adapters="",waiting_lora_adapters=""} `,
		"process_start_time_seconds ",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestLoRARoutes(t *testing.T) {
	_, hs := fast(t, sim.Config{})
	steps := []struct {
		path, body string
		status     int
	}{
		{"/v1/completions", `{"model":"t1","prompt":"a"}`, 404},
		{"/v1/load_lora_adapter", `{"lora_name":"t1"}`, 400},
		{"/v1/load_lora_adapter", `{"lora_name":"t1","lora_path":"/x"}`, 200},
		{"/v1/load_lora_adapter", `{"lora_name":"t1","lora_path":"/x"}`, 400},
		{"/v1/load_lora_adapter", `{"lora_name":"t1","lora_path":"/x","load_inplace":true}`, 200},
		{"/v1/completions", `{"model":"t1","prompt":"a"}`, 200},
		{"/v1/unload_lora_adapter", `{"lora_name":"t1"}`, 200},
		{"/v1/unload_lora_adapter", `{"lora_name":"t1"}`, 404},
		{"/v1/completions", `{"model":"t1","prompt":"a"}`, 404},
	}
	for i, st := range steps {
		if resp := post(t, hs.URL+st.path, st.body); resp.StatusCode != st.status {
			t.Errorf("step %d: %s = %d, want %d: %s", i, st.path, resp.StatusCode, st.status, readAll(t, resp))
		}
	}
}

func TestAPIKey(t *testing.T) {
	_, hs := fast(t, sim.Config{APIKey: "k"})
	if resp := post(t, hs.URL+"/v1/completions", `{"prompt":"a"}`); resp.StatusCode != 401 || readAll(t, resp) != `{"error":"Unauthorized"}` {
		t.Errorf("without the key: %d", resp.StatusCode)
	}
	if resp := post(t, hs.URL+"/v1/completions", `{"prompt":"a","max_tokens":1}`, "Authorization", "Bearer k"); resp.StatusCode != 200 {
		t.Errorf("with the key: %d", resp.StatusCode)
	}
	if resp := post(t, hs.URL+"/tokenize", `{"prompt":"abcdabcd"}`); resp.StatusCode != 200 || !strings.Contains(readAll(t, resp), `"count":2`) {
		t.Errorf("an open path: %d", resp.StatusCode)
	}
}

func TestLoadHeader(t *testing.T) {
	_, hs := fast(t, sim.Config{})
	resp := post(t, hs.URL+"/v1/completions", `{"prompt":"a","max_tokens":1}`, "endpoint-load-metrics-format", "JSON")
	if got, want := resp.Header.Get("endpoint-load-metrics"), `JSON {"named_metrics":{"kv_cache_usage_perc":0,"num_requests_waiting":0}}`; got != want {
		t.Errorf("endpoint-load-metrics = %q, want %q", got, want)
	}
}

// A conversation that goes on finds its own answer in the cache, by token ids.
func TestAnswerIsCached(t *testing.T) {
	_, hs := fast(t, sim.Config{})
	type answer struct {
		Choices []struct {
			TokenIDs []int `json:"token_ids"`
		}
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	ids := make([]int, 40)
	for i := range ids {
		ids[i] = i
	}
	ask := func() (a answer) {
		prompt, _ := json.Marshal(ids)
		body := fmt.Sprintf(`{"prompt":%s,"max_tokens":30,"ignore_eos":true,"return_token_ids":true}`, prompt)
		if err := json.Unmarshal([]byte(readAll(t, post(t, hs.URL+"/v1/completions", body))), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := ask()
	ids = append(ids, first.Choices[0].TokenIDs...)
	if len(ids) != 70 {
		t.Fatalf("%d token ids after an answer of 30, want 70", len(ids))
	}
	// The last generated token is never an input: 69 tokens fill 4 blocks.
	if got := ask().Usage.Details.Cached; got != 64 {
		t.Errorf("the second turn finds %d tokens cached, want 64", got)
	}
}

func TestRolePerChoice(t *testing.T) {
	_, hs := fast(t, sim.Config{})
	body := readAll(t, post(t, hs.URL+"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":true,"n":3}`))
	for i := range 3 {
		role := fmt.Sprintf(`"choices":[{"index":%d,"delta":{"role":"assistant","content":""}`, i)
		text := fmt.Sprintf(`"choices":[{"index":%d,"delta":{"content":" `, i)
		if strings.Count(body, role) != 1 || strings.Count(body, text) != 2 || strings.Index(body, role) > strings.Index(body, text) {
			t.Errorf("choice %d: want one role event and then two of text in\n%s", i, body)
		}
	}
}

// A completion's prompt has special tokens that text alone has not.
func TestTokenizePrompt(t *testing.T) {
	word := func(dst []uint32, text string) []uint32 {
		for range strings.FieldsSeq(text) {
			dst = append(dst, 7)
		}
		return dst
	}
	_, hs := fast(t, sim.Config{Tokenize: word, TokenizePrompt: func(dst []uint32, text string) []uint32 { return word(append(dst, 1), text) }})
	if body := readAll(t, post(t, hs.URL+"/v1/completions", `{"prompt":"one two","max_tokens":1}`)); !strings.Contains(body, `"prompt_tokens":3,`) {
		t.Errorf("completion = %s, want 3 prompt tokens", body)
	}
	if body := readAll(t, post(t, hs.URL+"/tokenize", `{"prompt":"one two"}`)); !strings.Contains(body, `"tokens":[1,7,7]`) {
		t.Errorf("tokenize = %s, want 1,7,7", body)
	}
	chat := readAll(t, post(t, hs.URL+"/v1/chat/completions", `{"messages":[{"role":"user","content":"one two"}],"max_tokens":1}`))
	if !strings.Contains(chat, `"prompt_tokens":3,`) {
		t.Errorf("chat = %s, want the 3 words of the template", chat)
	}
}

// With an interval the first token comes alone, the others in groups, and the
// last event has the rest.
func TestStreamInterval(t *testing.T) {
	_, hs := fast(t, sim.Config{StreamInterval: 3})
	body := words(readAll(t, post(t, hs.URL+"/v1/completions", `{"prompt":"a","max_tokens":9,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)))
	var texts, counts []string
	for line := range strings.Lines(body) {
		if _, after, ok := strings.Cut(line, `"text":"`); ok {
			text, rest, _ := strings.Cut(after, `"`)
			_, n, _ := strings.Cut(rest, `"completion_tokens":`)
			texts, counts = append(texts, text), append(counts, strings.TrimRight(n, "}\n"))
		}
	}
	if got := strings.Join(texts, " "); got != "_ ___ ___ __" {
		t.Errorf("events hold %q, want 1, 3, 3 and 2 tokens", got)
	}
	if got := strings.Join(counts, " "); got != "1 4 7 9" {
		t.Errorf("running counts are %q", got)
	}
}
