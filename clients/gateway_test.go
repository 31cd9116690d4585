package clients

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tenant"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// gateway is a whole gateway over real sockets, in front of one simulated
// replica.
type gateway struct {
	url     string
	key     string
	replica *sim.Server
	quota   *quota.Memory
}

func start(t *testing.T, limit quota.Limit) *gateway {
	t.Helper()
	model, err := tokenize.Load(demo.Files)
	check(t, err)
	g := &gateway{
		quota: quota.NewMemory(quota.MemoryConfig{}),
		replica: sim.NewServer(sim.Config{
			Model: "acme-8b", Adapters: map[string]string{"legal-v3": "/adapters/legal"}, Speed: 10,
			Natural: func(uint64) int { return 1 << 20 },
			Tokenize: func(dst []uint32, text string) []uint32 {
				ids, _ := model.Tokenizer().Append(dst, text)
				return ids
			},
			TokenizePrompt: func(dst []uint32, text string) []uint32 {
				ids, _ := model.AppendPrompt(dst, text)
				return ids
			},
			Render: func(dst []byte, messages, tools json.RawMessage) ([]byte, error) {
				text, _, err := model.AppendText(dst, chat.Input{Messages: messages, Tools: tools})
				return text, err
			},
		}),
	}
	upstream := httptest.NewServer(g.replica)
	pool, err := registry.NewPool(registry.PoolConfig{Name: "small"})
	check(t, err)
	_, err = pool.Add(registry.ReplicaConfig{URL: upstream.URL})
	check(t, err)
	reg, err := registry.NewStatic(pool)
	check(t, err)
	key, digest, err := tenant.NewKey()
	check(t, err)
	g.key = key
	keys, err := tenant.NewKeys([]tenant.Key{{Digest: digest, Tenant: &tenant.Tenant{ID: "acme", Limit: limit}}}, tenant.Config{})
	check(t, err)
	h, err := expediter.New(expediter.Config{
		Registry: reg,
		Pools:    []expediter.Pool{{Name: "small", Served: "acme-8b", Tokenizer: model, MaxModelLen: 32768}},
		Models: []expediter.Model{
			{Name: "gpt-fast", Pool: "small"},
			{Name: "legal", Pool: "small", Adapter: "legal-v3"},
		},
		Authenticate: keys.Authenticate,
		Quota:        g.quota,
		Scrape:       50 * time.Millisecond,
	})
	check(t, err)
	front := httptest.NewServer(h)
	g.url = front.URL
	t.Cleanup(func() {
		front.Close()
		h.Close()
		upstream.Close()
		g.replica.Close()
		b, err := g.quota.Balance(context.Background(), "acme")
		if err != nil || b.Running != 0 || b.Reserved != 0 {
			t.Errorf("quota at rest: %+v, %v; want nothing running or reserved", b, err)
		}
	})
	return g
}

func (g *gateway) client(opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(g.url + "/v1"), option.WithAPIKey(g.key)}, opts...)...)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
