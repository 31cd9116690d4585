package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tenant"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// demoPools are three pools as in real life: a large model, a small one, and
// a small one with LoRA adapters.
var demoPools = [...]struct {
	name, served string
	profile      func() sim.Profile
	replicas     int
	aliases      []string
	adapters     []string
	ttft         time.Duration
}{
	{"70b", "demo-70b", sim.Llama70BTP2A100, 2, []string{"gpt-best"}, nil, 10 * time.Second},
	{"8b", "demo-8b", sim.Llama8BA100, 3, []string{"gpt-fast"}, nil, 5 * time.Second},
	{"8b-lora", "demo-8b-lora", sim.Llama8BA100, 2, nil, []string{"legal", "support", "sql"}, 5 * time.Second},
}

// fleet is the embedded replicas, each on a port of its own.
type fleet struct {
	servers []*http.Server
	sims    []*sim.Server
}

// runDemo serves an embedded simulated fleet.
func runDemo(ctx context.Context, addr string, logger *slog.Logger, stop <-chan os.Signal) error {
	l, err := listen(addr)
	if err != nil {
		return err
	}
	defer l.Close()
	model, err := tokenize.Load(demo.Files)
	if err != nil {
		return err
	}
	f := new(fleet)
	defer f.close()
	c, names, err := f.start(model)
	if err != nil {
		return err
	}
	key, digest, err := tenant.NewKey()
	if err != nil {
		return err
	}
	t := &tenant.Tenant{ID: "demo", Limit: quota.Limit{Concurrency: 64, Windows: []quota.Window{quota.PerMinute(2_000_000)}}}
	keys, err := tenant.NewKeys([]tenant.Key{{Digest: digest, Tenant: t}}, tenant.Config{})
	if err != nil {
		return err
	}
	m := metrics.New(metrics.Config{Names: names})
	c.Authenticate = keys.Authenticate
	c.Quota = quota.NewMemory(quota.MemoryConfig{})
	c.Usage, c.Refused, c.Metrics = m, m.Refused, m.Handler()
	c.Logger = logger
	h, err := expediter.New(c)
	if err != nil {
		return err
	}
	m.Watch(h.Pools, h.Lines)
	m.WatchParity(h.Parity)
	m.WatchPrefixes(h.Prefixes)
	m.WatchKeys(keyState(keys))
	s := server{handler: h, public: newPublic(h, logger), grace: 10 * time.Second, logger: logger}
	printDemo(l.Addr().String(), key)
	return s.run(l, nil, stop)
}

// start opens the replicas and describes them as a gateway's Config.
func (f *fleet) start(model *tokenize.Model) (c expediter.Config, names metrics.Names, err error) {
	var pools []*registry.Pool
	for _, dp := range demoPools {
		pool, err := registry.NewPool(registry.PoolConfig{Name: dp.name})
		if err != nil {
			return c, names, err
		}
		pools = append(pools, pool)
		names.Pools = append(names.Pools, dp.name)
		for i := range dp.replicas {
			s := sim.NewServer(demoReplica(dp.served, dp.profile(), dp.adapters, model))
			url, err := f.serve(s)
			if err != nil {
				return c, names, err
			}
			if _, err := pool.Add(registry.ReplicaConfig{Name: fmt.Sprintf("%s-%d", dp.name, i), URL: url}); err != nil {
				return c, names, err
			}
		}
		c.Pools = append(c.Pools, expediter.Pool{Name: dp.name, Served: dp.served, Tokenizer: model, MaxModelLen: demoContext, TTFT: dp.ttft})
		for _, name := range append([]string{dp.served}, dp.aliases...) {
			c.Models = append(c.Models, expediter.Model{Name: name, Pool: dp.name})
		}
		for _, a := range dp.adapters {
			c.Models = append(c.Models, expediter.Model{Name: a, Pool: dp.name, Adapter: a})
		}
	}
	for _, mo := range c.Models {
		names.Models = append(names.Models, mo.Name)
	}
	c.Registry, err = registry.NewStatic(pools...)
	return c, names, err
}

// demoContext is the longest prompt plus output, in tokens.
const demoContext = 16384

// demoReplica is a replica that tokenizes as the gateway does.
func demoReplica(served string, p sim.Profile, adapters []string, model *tokenize.Model) sim.Config {
	c := sim.Config{
		Model: served, Profile: p, MaxModelLen: demoContext, Adapters: make(map[string]string),
		Tokenize: func(dst []uint32, text string) []uint32 {
			ids, err := model.Tokenizer().Append(dst, text)
			if err != nil {
				return dst
			}
			return ids
		},
		TokenizePrompt: func(dst []uint32, text string) []uint32 {
			ids, err := model.AppendPrompt(dst, text)
			if err != nil {
				return dst
			}
			return ids
		},
		Render: func(dst []byte, messages, tools json.RawMessage) ([]byte, error) {
			text, _, err := model.AppendText(dst, chat.Input{Messages: messages, Tools: tools})
			return text, err
		},
	}
	for _, a := range adapters {
		c.Adapters[a] = "/adapters/" + a
	}
	return c
}

// serve puts one replica on a free port.
func (f *fleet) serve(s *sim.Server) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	hs := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go hs.Serve(l) // ends with close
	f.servers, f.sims = append(f.servers, hs), append(f.sims, s)
	return "http://" + l.Addr().String(), nil
}

func (f *fleet) close() {
	for _, s := range f.servers {
		s.Close()
	}
	for _, s := range f.sims {
		s.Close()
	}
}

// ignoreHangups says of each SIGHUP that the demo has nothing to read again. If
// nobody can be told, the terminal has gone, and the demo ends with it.
func ignoreHangups(ctx context.Context, hup <-chan os.Signal, stop chan<- os.Signal, log slog.Handler) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-hup:
			line := slog.NewRecord(time.Now(), slog.LevelInfo, "SIGHUP changes nothing: there is no configuration file to read again", 0)
			if err := log.Handle(ctx, line); err != nil {
				stop <- sig
			}
		}
	}
}

func printDemo(addr, key string) {
	chat := func(curl, model, rest string) string {
		return fmt.Sprintf(`%s http://%s/v1/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' -d '{"model":"%s","max_tokens":48,%s"messages":[{"role":"user","content":"What does an expediter do in a kitchen?"}]}'`,
			curl, addr, key, model, rest)
	}
	fmt.Printf("expediter on http://%s in front of a simulated fleet: 2 x 70B, 3 x 8B, 2 x 8B with LoRA adapters.\n", addr)
	fmt.Printf("The replicas time, cache and queue as vLLM on A100s would; the text they write is made up.\n\n")
	fmt.Println(chat("curl -sS -N", "gpt-fast", `"stream":true,`))
	fmt.Println()
	fmt.Println(chat("curl -sS", "gpt-best", ""))
	fmt.Println()
	fmt.Println(chat("curl -sS", "legal", ""))
	fmt.Println()
	fmt.Printf("curl -sS http://%s/v1/models -H 'Authorization: Bearer %s'\n\n", addr, key)
	fmt.Printf("Metrics: http://%s/metrics    Stop: Ctrl-C\n", addr)
}
