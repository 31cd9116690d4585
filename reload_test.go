package expediter_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/vllm"
)

// roundTripper is a transport that cannot be compared.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestReloadUnderLoad: Q3. Each request sees one configuration, none fails,
// and a bad configuration changes nothing.
func TestReloadUnderLoad(t *testing.T) {
	h := open(t, option{replicas: 2})
	own := vllm.NewTransport(vllm.TransportConfig{})
	t.Cleanup(own.CloseIdleConnections)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				resp := h.post(context.Background(), "/v1/chat/completions", chatBody(n%2 == 0, 3, "hi"))
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 || err != nil {
					t.Errorf("status %d, %v: %s", resp.StatusCode, err, b)
				}
			}
		})
	}
	for i := range 100 {
		c := h.config
		c.Models = append(c.Models[:2:2], expediter.Model{Name: fmt.Sprint("extra-", i), Pool: "small"})
		c.Pools = append([]expediter.Pool(nil), c.Pools...)
		if i%5 == 1 {
			c.Pools[0].Transport = roundTripper(own.RoundTrip)
		}
		if i%10 == 9 {
			c.Models[1].Pool = "nowhere"
			if err := h.handler.Reload(c); err == nil {
				t.Fatal("a configuration with a mistake was accepted")
			}
			c.Models[1].Pool = "small"
			continue
		}
		must(t, h.handler.Reload(c))
		name := fmt.Sprint("extra-", i)
		if status, body := h.chat(strings.Replace(chatBody(false, 2, "hi"), "gpt-fast", name, 1)); status != 200 {
			t.Errorf("reload %d: status %d: %s", i, status, body)
		}
	}
	stop.Store(true)
	wg.Wait()
	must(t, h.handler.Reload(h.config))
}

// TestReloadKeepsWhatIsKnown: prefix map, line and learned lengths survive.
func TestReloadKeepsWhatIsKnown(t *testing.T) {
	h := open(t, option{})
	body := chatBody(false, 3, strings.Repeat("the same long prompt ", 100))
	h.chat(body)
	must(t, h.handler.Reload(h.config))
	h.chat(body)
	r := h.records.wait(t, 2)
	if r[0].Predicted != 0 || r[1].Predicted == 0 {
		t.Errorf("predicted cached tokens: %d, then %d after a reload; want 0, then more", r[0].Predicted, r[1].Predicted)
	}
	h.replicas[0].reg.Restarted()
	must(t, h.handler.Reload(h.config))
	h.chat(body)
	if r := h.records.wait(t, 3)[2]; r.Predicted != 0 {
		t.Errorf("predicted %d cached tokens on a replica that restarted before a reload, want 0", r.Predicted)
	}
}
