package expediter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tenant"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// demoModel is the demo tokenizer, loaded once.
var demoModel = sync.OnceValue(func() *tokenize.Model {
	m, err := tokenize.Load(demo.Files)
	if err != nil {
		panic(err)
	}
	return m
})

// tokenized makes the gateway and its replicas use the demo model folder.
func tokenized(o option) option {
	changeSim, changeConfig := o.sim, o.config
	o.sim = func(c *sim.Config) {
		must := func(ids []uint32, err error) []uint32 {
			if err != nil {
				panic(err)
			}
			return ids
		}
		c.Tokenize = func(dst []uint32, text string) []uint32 { return must(demoModel().Tokenizer().Append(dst, text)) }
		c.TokenizePrompt = func(dst []uint32, text string) []uint32 { return must(demoModel().AppendPrompt(dst, text)) }
		c.Render = func(dst []byte, messages, tools json.RawMessage) ([]byte, error) {
			text, _, err := demoModel().AppendText(dst, chat.Input{Messages: messages, Tools: tools})
			return text, err
		}
		if changeSim != nil {
			changeSim(c)
		}
	}
	o.config = func(c *expediter.Config) {
		c.Pools[0].Tokenizer = demoModel()
		if changeConfig != nil {
			changeConfig(c)
		}
	}
	return o
}

// message is one turn of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// dialog is a conversation that grows by what the replicas answer.
type dialog struct {
	model    string
	messages []message
	tools    string
	extra    string // further fields of the body
}

// say sends the conversation with one more turn and returns its record.
func (d *dialog) say(h *house, text string) expediter.Record {
	h.t.Helper()
	d.messages = append(d.messages, message{"user", text})
	messages, err := json.Marshal(d.messages)
	must(h.t, err)
	body := fmt.Sprintf(`{"model":%q,"max_tokens":40,"messages":%s%s`, d.model, messages, d.extra)
	if d.tools != "" {
		body += `,"tools":` + d.tools
	}
	n := len(h.records.all())
	status, answer := h.chat(body + "}")
	if status != http.StatusOK {
		h.t.Fatalf("status %d, body %s", status, answer)
	}
	var whole struct {
		Choices []struct{ Message message }
	}
	must(h.t, json.Unmarshal([]byte(answer), &whole))
	d.messages = append(d.messages, whole.Choices[0].Message)
	return h.records.wait(h.t, n+1)[n]
}

// held is the engine's prefix cache as its rules say: the full blocks of all
// earlier prompts of one replica, and never the last token of a prompt.
type held struct {
	size  int
	known map[string]bool
}

// take returns how many tokens of a prompt are cached, and adds it.
func (p *held) take(ids []uint32, seed string) int {
	cached, chained := 0, seed
	missed := false
	for i := 0; i+p.size <= len(ids); i += p.size {
		chained = fmt.Sprint(chained, ids[i:i+p.size])
		missed = missed || !p.known[chained]
		if !missed {
			cached = i + p.size
		}
		p.known[chained] = true
	}
	return min(cached, (len(ids)-1)/p.size*p.size)
}

const handbook = "You answer for the kitchen of a large hotel. Orders come in by table; each names its dishes, its guests and when it wants to eat. Say which station cooks what, in what order, so that all plates of one table are ready together, and keep every answer short.\n"

// TestPrediction: through the whole gateway, with the model's own tokenizer
// on both sides, the engine finds exactly the prompt tokens cached that the
// router predicted, turn after turn.
func TestPrediction(t *testing.T) {
	for _, c := range []struct {
		name     string
		rule     string
		replicas int // that take part
		block    int
	}{
		{"one replica", "marginal", 1, 16},
		{"three replicas", "roundrobin", 3, 16},
		{"blocks of 32", "roundrobin", 2, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := tokenized(option{replicas: c.replicas, sim: func(s *sim.Config) {
				s.Profile = sim.Llama8BA100()
				s.Profile.BlockSize = c.block
			}, config: func(cfg *expediter.Config) {
				var err error
				cfg.Pools[0].Router, err = router.ByName(c.rule, 7)
				must(t, err)
			}})
			inMemory(t, o, func(t *testing.T, h *house) {
				time.Sleep(2 * time.Second) // all have reported
				caches := make(map[string]*held)
				for _, r := range h.replicas {
					caches[r.reg.Name()] = &held{size: c.block, known: make(map[string]bool)}
				}
				cached, used := converse(t, h, caches)
				if cached < 4000 || used != c.replicas {
					t.Errorf("%d tokens were cached on %d replicas, want more than 4000 on %d", cached, used, c.replicas)
				}
			})
		})
	}
}

// converse holds conversations of several turns side by side and checks every
// record. It returns the tokens cached and the number of replicas used.
func converse(t *testing.T, h *house, caches map[string]*held) (cached, replicas int) {
	t.Helper()
	used := make(map[string]bool)
	dialogs := []*dialog{
		{model: "gpt-fast", messages: []message{{"system", handbook}}},
		{model: "gpt-fast", messages: []message{{"system", handbook}}},
		{model: servedModel, messages: []message{{"system", strings.Repeat(handbook, 3)}}},
		{model: "gpt-fast", tools: `[{"type":"function","function":{"name":"fire","description":"Tell a station to start.","parameters":{"type":"object","properties":{"station":{"type":"string"}}}}}]`},
		{model: "gpt-fast"},
	}
	for turn := range 8 {
		for i, d := range dialogs {
			rec := d.say(h, fmt.Sprintf("Table %d, order %d: two soups, %s and a glass of water.", i, turn, strings.Repeat("one steak, ", turn+i)))
			sent := d.messages[:len(d.messages)-1]
			checkPrediction(t, caches, rec, sent, d.tools)
			cached += rec.Cached
			used[rec.Replica] = true
		}
	}
	return cached, len(used)
}

// checkPrediction compares a record with what the messages sent must give.
func checkPrediction(t *testing.T, caches map[string]*held, rec expediter.Record, sent []message, tools string) {
	t.Helper()
	messages, err := json.Marshal(sent)
	must(t, err)
	ids, err := demoModel().AppendChat(nil, chat.Input{Messages: messages, Tools: json.RawMessage(tools)})
	must(t, err)
	want := caches[rec.Replica].take(ids, "")
	if rec.Predicted != rec.Cached || rec.Cached != want || rec.Input != len(ids) || rec.Approximate || rec.Estimated {
		t.Errorf("%s, %d messages: predicted %d, cached %d, want %d; input %d, want %d; approximate %t, estimated %t",
			rec.Replica, len(sent), rec.Predicted, rec.Cached, want, rec.Input, len(ids), rec.Approximate, rec.Estimated)
	}
}

// TestPredictionOfLastBlock: a prompt that is cached whole is computed from
// its last block on, whatever its length.
func TestPredictionOfLastBlock(t *testing.T) {
	inMemory(t, tokenized(option{}), func(t *testing.T, h *house) {
		time.Sleep(2 * time.Second)
		seen := make(map[int]bool)
		for n := range 40 {
			prompt := fmt.Sprintf("%d:", n) + strings.Repeat(" the", 60+n)
			ids, err := demoModel().AppendPrompt(nil, prompt)
			must(t, err)
			seen[len(ids)%16] = true
			for _, want := range []int{0, (len(ids) - 1) / 16 * 16} {
				before := len(h.records.all())
				resp := h.post(t.Context(), "/v1/completions", fmt.Sprintf(`{"model":"gpt-fast","max_tokens":3,"prompt":%q}`, prompt))
				if body := readAll(t, resp); resp.StatusCode != http.StatusOK {
					t.Fatalf("status %d, body %s", resp.StatusCode, body)
				}
				rec := h.records.wait(t, before+1)[before]
				if rec.Predicted != want || rec.Cached != want || rec.Input != len(ids) {
					t.Errorf("prompt of %d tokens: predicted %d, cached %d, want %d; input %d", len(ids), rec.Predicted, rec.Cached, want, rec.Input)
				}
			}
		}
		if len(seen) != 16 {
			t.Errorf("lengths modulo 16: %v, want all", seen)
		}
	})
}

// TestPredictionWithPromptLogprobs: such a request reads nothing from the
// cache, and what it leaves there is predicted for the next.
func TestPredictionWithPromptLogprobs(t *testing.T) {
	inMemory(t, tokenized(option{}), func(t *testing.T, h *house) {
		time.Sleep(2 * time.Second)
		for i, c := range []struct {
			extra string
			hit   bool
		}{{`,"prompt_logprobs":1`, false}, {`,"prompt_logprobs":0`, false}, {`,"prompt_logprobs":null`, true}, {``, true}} {
			d := dialog{model: "gpt-fast", extra: c.extra}
			if rec := d.say(h, handbook); rec.Predicted != rec.Cached || c.hit != (rec.Cached > 0) {
				t.Errorf("request %d: predicted %d, cached %d, want some: %t", i, rec.Predicted, rec.Cached, c.hit)
			}
		}
	})
}

// TestPredictionUnsaid: an engine that does not say what it found cached, as
// most do not, and answers that end before it could, are no contradiction.
func TestPredictionUnsaid(t *testing.T) {
	t.Run("by the engine", func(t *testing.T) {
		o := tokenized(option{replicas: 3, sim: func(s *sim.Config) { s.HideCachedTokens = true }})
		inMemory(t, o, func(t *testing.T, h *house) {
			time.Sleep(2 * time.Second)
			dialogs := make([]dialog, 6)
			for i := range dialogs {
				dialogs[i] = dialog{model: "gpt-fast", messages: []message{{"system", fmt.Sprint(i, handbook)}}}
			}
			last := make([]expediter.Record, len(dialogs))
			for turn := range 4 {
				for i := range dialogs {
					rec := dialogs[i].say(h, "And two soups more.")
					if turn > 0 && (rec.Replica != last[i].Replica || rec.Predicted < last[i].Input/16*16 || rec.Cached != 0) {
						t.Errorf("turn %d of dialog %d: on %s after %s, predicted %d of %d tokens, cached %d", turn, i, rec.Replica, last[i].Replica, rec.Predicted, rec.Input, rec.Cached)
					}
					last[i] = rec
				}
			}
		})
	})
	t.Run("before the end", func(t *testing.T) {
		inMemory(t, tokenized(option{}), func(t *testing.T, h *house) {
			time.Sleep(2 * time.Second)
			d := dialog{model: "gpt-fast"}
			first := d.say(h, handbook)
			for i := range 5 {
				ctx, leave := context.WithCancel(t.Context())
				resp := h.post(ctx, "/v1/chat/completions", fmt.Sprintf(`{"model":"gpt-fast","stream":true,"max_tokens":900,"messages":[{"role":"user","content":%q}]}`, "Now. "+handbook))
				_, err := io.ReadFull(resp.Body, make([]byte, 500))
				must(t, err)
				leave()
				if rec := h.records.wait(t, i+2)[i+1]; rec.Status != expediter.StatusCancelled || i > 0 && rec.Predicted == 0 || rec.Output == 0 {
					t.Fatalf("stream %d: %+v, want one that was cut off, with a prediction", i, rec)
				}
			}
			if rec := d.say(h, "And two soups more."); rec.Predicted != rec.Cached || rec.Cached < first.Input/16*16 {
				t.Errorf("predicted %d, cached %d, want %d or more", rec.Predicted, rec.Cached, first.Input/16*16)
			}
		})
	})
}

// TestPredictionSeparates: adapters and tenants with a salt share nothing, and
// what is theirs is predicted as exactly.
func TestPredictionSeparates(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       option
		a, b    dialog
		forgets bool // b finds nothing of a's
	}{
		{"base and adapter", option{
			sim: func(s *sim.Config) { s.Adapters = map[string]string{"legal": "/adapters/legal"} },
			config: func(c *expediter.Config) {
				c.Models = append(c.Models, expediter.Model{Name: "law", Pool: "small", Adapter: "legal"})
			},
		}, dialog{model: "gpt-fast"}, dialog{model: "law"}, true},
		{"salted tenant", option{
			tenant: func(t *tenant.Tenant) { t.IsolatePrefix = true },
		}, dialog{model: "gpt-fast"}, dialog{model: servedModel}, false},
		{"the caller's salt", option{
			tenant: func(t *tenant.Tenant) { t.AllowFields = []string{"cache_salt"} },
		}, dialog{model: "gpt-fast"}, dialog{model: "gpt-fast", extra: `,"cache_salt":"mine"`}, true},
		{"the caller's salt, not allowed", option{}, dialog{model: "gpt-fast"}, dialog{model: "gpt-fast", extra: `,"cache_salt":"mine"`}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inMemory(t, tokenized(c.o), func(t *testing.T, h *house) {
				time.Sleep(2 * time.Second)
				for turn := range 3 {
					for i, d := range []*dialog{&c.a, &c.b} {
						rec := d.say(h, handbook)
						if rec.Predicted != rec.Cached {
							t.Errorf("turn %d of dialog %d: predicted %d, cached %d", turn, i, rec.Predicted, rec.Cached)
						}
						if fresh := turn == 0 && (i == 0 || c.forgets); fresh != (rec.Cached == 0) {
							t.Errorf("turn %d of dialog %d: cached %d, want none: %t", turn, i, rec.Cached, fresh)
						}
					}
				}
			})
		})
	}
}
