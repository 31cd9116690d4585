package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/redistest"
)

// pair is two gateway processes that share a Redis and a replica.
type pair struct {
	gateways [2]*exec.Cmd
	addrs    [2]string
	key      string
}

// openPair starts them, with a tenant of the given concurrency.
func openPair(t *testing.T, concurrency int) *pair {
	t.Helper()
	redis := redistest.Start(t)
	replicaBin, gatewayBin := build(t, "replica"), build(t, "gateway")
	replica := freeAddr(t)
	run(t, "http://"+replica+"/health", replicaBin, "-addr", replica, "-model", "acme-8b")
	out, err := exec.Command(gatewayBin, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(out))
	p := &pair{key: fields[1]}
	for i := range p.gateways {
		p.addrs[i] = freeAddr(t)
		file := filepath.Join(t.TempDir(), "gateway.yaml")
		yaml := fmt.Sprintf("listen: %s\npools:\n  - name: small\n    served: acme-8b\n    replicas: [%q]\nmodels: [{name: gpt-fast, pool: small}]\n"+
			"tenants:\n  - id: acme\n    concurrency: %d\n    keys: [%s]\nredis:\n  addresses: [%q]\n  policy: closed\n  timeout: 10s\n  patience: 10s\n",
			p.addrs[i], "http://"+replica, concurrency, fields[3], redis.Addr)
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		p.gateways[i], _ = run(t, "http://"+p.addrs[i]+"/readyz", gatewayBin, "-config", file)
	}
	return p
}

// stream opens a stream at gateway i and returns its status once the head, or
// the refusal, is there.
func (p *pair) stream(ctx context.Context, i, tokens int) (int, io.ReadCloser, error) {
	body := fmt.Sprintf(`{"model":"gpt-fast","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"hold"}]}`, tokens)
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+p.addrs[i]+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+p.key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, resp.Body, nil
}

// TestCapAcrossGateways: two gateways together let no more streams of a
// tenant through than its cap, and none less.
func TestCapAcrossGateways(t *testing.T) {
	const limit = 10
	p := openPair(t, limit)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var open, refused atomic.Int32
	for i := range 60 {
		wg.Go(func() {
			status, body, err := p.stream(ctx, i%2, 5000)
			if err != nil {
				t.Errorf("stream %d: %v", i, err)
				return
			}
			switch status {
			case 200:
				open.Add(1)
				io.Copy(io.Discard, body)
			case 429:
				refused.Add(1)
			default:
				t.Errorf("stream %d: status %d", i, status)
			}
			body.Close()
		})
	}
	redistest.Until(t, "every request to be answered", 30*time.Second, func() bool { return open.Load()+refused.Load() == 60 })
	if n := open.Load(); n != limit {
		t.Errorf("%d streams are open, want %d", n, limit)
	}
	cancel()
	wg.Wait()
	redistest.Until(t, "the slots to be free", 10*time.Second, func() bool {
		status, body, err := p.stream(context.Background(), 0, 1)
		if err == nil {
			body.Close()
		}
		return err == nil && status == 200
	})
}

// TestKilledGatewayFreesSlots: a gateway is killed with all of a tenant's
// slots in use. The other one goes on asking for one all the time; it gets it
// when the lease of 30 s is over, and not while the streams could still run.
func TestKilledGatewayFreesSlots(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease to end")
	}
	const limit = 50
	p := openPair(t, limit)
	for range limit {
		status, body, err := p.stream(t.Context(), 0, 20_000)
		if err != nil || status != 200 {
			t.Fatalf("status %d, %v", status, err)
		}
		defer body.Close()
		if _, err := bufio.NewReader(body).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	p.gateways[0].Process.Kill()
	killed := time.Now()
	var freed time.Duration
	redistest.Until(t, "a slot of the killed gateway", 60*time.Second, func() bool {
		status, body, err := p.stream(context.Background(), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		body.Close()
		freed = time.Since(killed)
		return status == 200
	})
	if freed < 15*time.Second {
		t.Errorf("a slot was free %v after the kill: sooner than a lease renewed every 7.5 s can end", freed)
	}
	t.Logf("slots were free again %v after the kill", freed)
}
