package faultbench_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// conversation makes messages at random: all roles, text that is hard to
// count, and none.
func conversation(r *rand.Rand) string {
	texts := []string{"", "hello", "漢字 and 🙂🙂", "<|eot_id|>", "<|im_end|>\n<|im_start|>system", "  spaces  \n\n", "a\u0301e\u0301", strings.Repeat("long ", 300), "\t", "0123456789"}
	var out []map[string]string
	if r.IntN(2) == 0 {
		out = append(out, map[string]string{"role": "system", "content": texts[r.IntN(len(texts))]})
	}
	for range 1 + r.IntN(3) {
		out = append(out, map[string]string{"role": "user", "content": texts[r.IntN(len(texts))] + texts[r.IntN(len(texts))]},
			map[string]string{"role": "assistant", "content": texts[r.IntN(len(texts))]})
	}
	if r.IntN(4) > 0 {
		out = out[:len(out)-1]
	}
	b, _ := json.Marshal(out) // strings always marshal
	return string(b)
}

// countingEngine is a simulated engine with the gateway's model folder.
func countingEngine(t *testing.T, model *tokenize.Model) *sim.Server {
	return sim.NewServer(sim.Config{
		Model: faultbench.Model,
		Tokenize: func(dst []uint32, text string) []uint32 {
			ids, err := model.Tokenizer().Append(dst, text)
			if err != nil {
				t.Error(err)
			}
			return ids
		},
		TokenizePrompt: func(dst []uint32, text string) []uint32 {
			ids, err := model.AppendPrompt(dst, text)
			if err != nil {
				t.Error(err)
			}
			return ids
		},
		Render: func(dst []byte, messages, tools json.RawMessage) ([]byte, error) {
			text, _, err := model.AppendText(dst, chat.Input{Messages: messages, Tools: tools})
			return text, err
		},
	})
}

// TestI9OwnCountEqualsTheEngines: what the gateway reserves for a prompt is
// what an engine with the same model folder counts, through the whole
// pipeline: templates, special tokens, texts that look like them, several
// prompts. That the tokens are those of the models' own engines is held by the
// golden tests of package tokenize.
func TestI9OwnCountEqualsTheEngines(t *testing.T) {
	model, err := tokenize.Load(demo.Files)
	if err != nil {
		t.Fatal(err)
	}
	engine := countingEngine(t, model)
	srv := httptest.NewServer(engine)
	defer func() { srv.Close(); engine.Close() }()
	h := faultbench.Open(t, faultbench.Options{Unseen: true, Loose: true, Config: func(c *expediter.Config) {
		c.Scrape, c.Parity = -1, -1
		c.Pools[0].Tokenizer = model
	}})
	h.Pool.Remove(h.Members[0])
	if _, err := h.Pool.Add(registry.ReplicaConfig{Name: "engine", URL: srv.URL}); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range full(150, 1000) {
		path, body := "/v1/chat/completions", `"messages":`+conversation(r)
		prompts := 1
		switch i % 5 {
		case 3:
			path, body = "/v1/completions", `"prompt":"漢字 <|eot_id|> `+strings.Repeat("x ", r.IntN(50))+`"`
		case 4:
			path, body, prompts = "/v1/completions", fmt.Sprintf(`"prompt":["one","%s"]`, strings.Repeat("two ", 1+r.IntN(50))), 2
		}
		doc := `{"model":"` + faultbench.Alias + `","max_tokens":1,` + body + `}`
		a := h.Send(t.Context(), path, strings.NewReader(doc), nil, nil)
		if a.Status != 200 {
			t.Fatalf("status %d: %s; for %s", a.Status, a.Body, doc)
		}
		var usage struct {
			Prompt int `json:"prompt_tokens"`
		}
		if err := json.Unmarshal([]byte(a.Usage), &usage); err != nil {
			t.Fatal(err)
		}
		recs := h.Records()
		if rec := recs[len(recs)-1]; rec.Reserved != int64(usage.Prompt+prompts) || rec.Approximate || rec.Input != usage.Prompt {
			t.Errorf("the engine counts %d, and %d are to be generated: record = %+v; for %s", usage.Prompt, prompts, rec, doc)
		}
	}
}

// TestL1NameInNameOut: the answer names the model as the client did, in every
// chunk; a name that is not served goes nowhere.
func TestL1NameInNameOut(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Config: func(c *expediter.Config) {
		c.Models = append(c.Models, expediter.Model{Name: "legal", Pool: "small", Adapter: "legal-v3"})
	}})
	for _, tc := range []struct {
		name, served string
		status       int
	}{
		{faultbench.Alias, faultbench.Model, 200},
		{faultbench.Model, faultbench.Model, 200},
		{"legal", "legal-v3", 200},
		{"legal-v3", "", 404}, // the replicas' name, which is nobody's business
		{"small", "", 404},    // the pool
		{"GPT-FAST", "", 404},
		{"gpt-fast ", "", 404},
		{"nothing", "", 404},
	} {
		for _, stream := range []bool{true, false} {
			before := h.Ledger.Len()
			a := h.Do(t.Context(), faultbench.Request{Stream: stream, MaxTokens: 3, Model: tc.name})
			got := h.Ledger.All()[before:]
			if a.Status != tc.status || len(got) > 0 != (tc.status == 200) {
				t.Errorf("%q, stream %t: status %d, %d requests at the replica: %s", tc.name, stream, a.Status, len(got), a.Body)
				continue
			}
			if tc.status != 200 {
				if a.Code != "model_not_found" {
					t.Errorf("%q: code %q", tc.name, a.Code)
				}
				continue
			}
			names := strings.Count(a.Body, `"model":`)
			if own := strings.Count(a.Body, `"model":"`+tc.name+`"`); own != names || own == 0 || got[0].Ask.Model != tc.served {
				t.Errorf("%q, stream %t: %d of %d chunks name it; the replica was asked for %q", tc.name, stream, own, names, got[0].Ask.Model)
			}
		}
	}
	if a := h.Send(t.Context(), "/v1/chat/completions", strings.NewReader(`{"model":"",`+messages+`}`), nil, nil); a.Status != 400 || h.Ledger.Len() != 6 {
		t.Errorf("an empty name: status %d: %s", a.Status, a.Body)
	}
}

// TestL2NamesThatCollide: two models of one name, and models of pools that do
// not exist, are refused before anything is served.
func TestL2NamesThatCollide(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{})
	for name, m := range map[string]expediter.Model{
		"L2 alias twice":    {Name: faultbench.Alias, Pool: "small"},
		"L2 adapter, alias": {Name: faultbench.Alias, Pool: "small", Adapter: "lora"},
		"L2 model, adapter": {Name: faultbench.Model, Pool: "small", Adapter: "lora"},
		"L2 no such pool":   {Name: "other", Pool: faultbench.Alias},
	} {
		c := h.Config
		c.Models = append(c.Models[:len(c.Models):len(c.Models)], m)
		if err := h.Handler.Reload(c); err == nil || !strings.Contains(err.Error(), m.Name) && !strings.Contains(err.Error(), m.Pool) {
			t.Errorf("%s: Reload = %v", name, err)
		}
	}
}
