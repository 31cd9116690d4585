package faultbench_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/internal/faultbench"
)

// TestP1NoSecretInAnyOutput: replicas that echo prompts and completions in
// every place an error can hold, and still none gets into a log, a metric, a
// record or an error body. The check of the house does the search.
func TestP1NoSecretInAnyOutput(t *testing.T) {
	echo := func(g *faultbench.Got) string { return faultbench.Prompt + g.Nonce + faultbench.Words }
	for name, script := range map[string]func(*faultbench.Got) faultbench.Script{
		"P1 500 with the request": func(g *faultbench.Got) faultbench.Script { return faultbench.JSON(500, g.Body, 0) },
		"P1 500 with a message": func(g *faultbench.Got) faultbench.Script {
			return faultbench.JSON(500, fmt.Appendf(nil, `{"error":{"message":%q,"type":"InternalServerError","code":500}}`, echo(g)), 0)
		},
		"P1 type and param": func(g *faultbench.Got) faultbench.Script {
			return faultbench.JSON(500, fmt.Appendf(nil, `{"error":{"message":"no","type":%q,"param":%q,"code":500}}`, echo(g), echo(g)), 0)
		},
		"P1 status line": func(g *faultbench.Got) faultbench.Script {
			return faultbench.Script{Informational: []http.Header{{"Status": {"xyz " + echo(g)}}}}
		},
		"P1 header": func(g *faultbench.Got) faultbench.Script {
			return faultbench.Script{Header: http.Header{"Bad Header " + echo(g): {echo(g)}}}
		},
		"P1 length": func(g *faultbench.Got) faultbench.Script {
			return faultbench.Script{Header: http.Header{"Content-Length": {echo(g)}}}
		},
		"P1 encoding": func(g *faultbench.Got) faultbench.Script {
			return faultbench.Script{Length: 5, Header: http.Header{"Transfer-Encoding": {echo(g)}}}
		},
		"P1 redirect": func(g *faultbench.Got) faultbench.Script {
			return faultbench.Script{Status: 307, Header: http.Header{"Location": {"http://" + echo(g) + "/"}}}
		},
		"P1 event that is not JSON": func(g *faultbench.Got) faultbench.Script {
			return faultbench.Stream(faultbench.Piece{Data: []byte("data: " + echo(g) + "\n\n")})
		},
		"P1 answer that is not JSON": func(g *faultbench.Got) faultbench.Script { return faultbench.JSON(200, []byte(echo(g)), 0) },
		"P1 error event": func(g *faultbench.Got) faultbench.Script {
			return faultbench.Stream(faultbench.Piece{Data: fmt.Appendf(nil, `data: {"error":{"message":%q,"type":%q,"code":500}}`+"\n\n", echo(g), echo(g))})
		},
		"P1 error event later": func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			return faultbench.Stream(s.Role(), s.Delta(1), faultbench.Piece{Data: []byte(`data: {"error":{"message":"no","code":500}}` + "\n\n")})
		},
		"P1 finish reason": func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			odd := fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`+"\n\n", echo(g))
			return faultbench.Stream(append(s.Deltas(5), faultbench.Piece{Data: []byte(odd)}, faultbench.Done())...)
		},
		"P1 names of chunks": func(g *faultbench.Got) faultbench.Script {
			sc := faultbench.Speak(g).Script()
			sc.Header["Server"] = []string{echo(g)}
			return sc
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: script, Unseen: true})
			for _, stream := range []bool{true, false} {
				h.Do(t.Context(), faultbench.Request{Stream: stream, MaxTokens: 5, Header: http.Header{
					"X-Api-Key": {h.Key}, "Traceparent": {h.Key}, "Cookie": {h.Key}, "User-Agent": {faultbench.Prompt},
				}})
			}
			for _, body := range []string{
				`{"model":"` + faultbench.Alias + `","messages":[{"role":"` + faultbench.Prompt + `","content":"` + faultbench.Prompt + `"}]}`,
				`{"model":"` + faultbench.Alias + `","messages":"` + faultbench.Prompt + `"}`,
				`{"model":"` + faultbench.Alias + `","` + faultbench.Prompt + `":1,"` + faultbench.Prompt + `":2,"messages":[]}`,
				`{"model":"` + faultbench.Alias + `","max_tokens":"` + faultbench.Prompt + `"}`,
				`{"model":"` + faultbench.Alias + `","messages":[{"role":"user","content":"` + faultbench.Prompt,
			} {
				h.Send(t.Context(), "/v1/chat/completions?key="+h.Key, strings.NewReader(body), nil, nil)
			}
			h.Send(t.Context(), "/v1/"+faultbench.Prompt, strings.NewReader("{}"), nil, nil)
			h.Send(t.Context(), "/v1/chat/completions", strings.NewReader("{}"), http.Header{"Authorization": {"Bearer " + h.Key + "x"}}, nil)
		})
	}
}

// TestP2LabelsFromClients: whatever clients call models, paths, methods and
// themselves, the number of series stays.
func TestP2LabelsFromClients(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{})
	series := func() string {
		var names []string
		for line := range strings.Lines(h.Scrape()) {
			name, _, _ := strings.Cut(line, "} ")
			names = append(names, name)
		}
		return strings.Join(names, "\n")
	}
	junk := func(i int) {
		name := fmt.Sprintf("model-%d", i)
		h.Do(t.Context(), faultbench.Request{MaxTokens: 1, Model: name, Fields: fmt.Sprintf(`,"user":"user-%d"`, i), Header: http.Header{"User-Agent": {name}}})
		h.Do(t.Context(), faultbench.Request{MaxTokens: 1, Model: name, Header: http.Header{"Authorization": {"Bearer " + name}}})
		h.Send(t.Context(), "/v1/"+name, strings.NewReader("{}"), nil, nil)
		if i%10 == 0 {
			h.Do(t.Context(), faultbench.Request{MaxTokens: 1, Fields: fmt.Sprintf(`,"user":"user-%d"`, i)})
		}
		req, err := http.NewRequest(fmt.Sprintf("METHOD%d", i), h.URL+"/v1/chat/completions", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := h.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	junk(0)
	h.Check()
	before := series()
	for i := range 200 {
		junk(i + 1)
	}
	h.Check()
	fresh := 0
	for name := range strings.SplitSeq(series(), "\n") {
		for _, junk := range []string{"model-1", "user-1", "METHOD1", "/v1/model"} {
			if strings.Contains(name, junk) {
				t.Errorf("a series with a client's word: %s", name)
			}
		}
		if strings.Contains(name, "{") && !strings.Contains(before, name) {
			fresh++
		}
	}
	if fresh > 10 { // what a replica reports may come late, and so may a 429 for trying keys
		t.Errorf("%d new series for 200 new names", fresh)
	}
	for _, r := range h.Records() {
		if r.Model != faultbench.Alias {
			t.Errorf("accepted: %+v", r)
		}
	}
}
