package examples_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/redistest"
)

// freeAddr returns an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run starts a program in the background and waits until url answers 200.
func run(t *testing.T, url, bin string, args ...string) (*exec.Cmd, *lockedBuffer) {
	t.Helper()
	cmd := exec.Command(bin, args...)
	logs := new(lockedBuffer)
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", filepath.Base(bin), logs.String())
		}
	})
	redistest.Until(t, url+" to answer", 20*time.Second, func() bool {
		resp, err := http.Get(url)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	return cmd, logs
}

// lockedBuffer is a buffer that is read while a program still writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestConfigured runs the gateway by a configuration: three replica
// processes, quota and usage in a real Redis, a usage file. One replica is
// killed under load, the configuration is read again, and SIGTERM ends it.
func TestConfigured(t *testing.T) {
	redis := redistest.Start(t)
	replicaBin, gatewayBin, reportBin := build(t, "replica"), build(t, "gateway"), build(t, "usagereport")
	dir := t.TempDir()
	var urls []string
	var replicas []*exec.Cmd
	for range 3 {
		addr := freeAddr(t)
		cmd, _ := run(t, "http://"+addr+"/health", replicaBin, "-addr", addr, "-model", "acme-8b", "-speed", "20")
		urls, replicas = append(urls, "http://"+addr), append(replicas, cmd)
	}
	out, err := exec.Command(gatewayBin, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(out))
	key, digest := fields[1], fields[3]
	addr := freeAddr(t)
	file, usage := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "usage.jsonl")
	write := func(models string) {
		t.Helper()
		yaml := fmt.Sprintf("listen: %s\npools:\n  - name: small\n    served: acme-8b\n    replicas: [%q, %q, %q]\nmodels: %s\n"+
			"tenants:\n  - id: acme\n    tokens_per_minute: 10_000_000\n    concurrency: 200\n    keys: [%s]\nredis:\n  addresses: [%q]\n  policy: closed\n  timeout: 10s\n  patience: 10s\nusage: {file: %s, redis_stream: usage}\n",
			addr, urls[0], urls[1], urls[2], models, digest, redis.Addr, usage)
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[{name: gpt-fast, pool: small}]")
	if out, err := exec.Command(gatewayBin, "-config", file, "-check").CombinedOutput(); err != nil || !strings.Contains(string(out), ": 1 pool, 1 model, 1 tenant: good") {
		t.Fatalf("-check: %v\n%s", err, out)
	}
	gateway, logs := run(t, "http://"+addr+"/readyz", gatewayBin, "-config", file)
	chat := func(model string, stream bool) (int, string) { return chatAs(addr, key, model, stream) }
	loseReplica(t, chat, replicas[0])

	readAgain(t, file, write, gateway, logs, chat)

	gateway.Process.Signal(syscall.SIGTERM)
	if err := gateway.Wait(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	if strings.Contains(logs.String(), key) {
		t.Error("the log holds the key")
	}
	checkReport(t, reportBin, usage, redis.Addr)
}

// readAgain changes the configuration, first for another, then for nonsense.
func readAgain(t *testing.T, file string, write func(models string), gateway *exec.Cmd, logs *lockedBuffer, chat func(string, bool) (int, string)) {
	t.Helper()
	if status, _ := chat("gpt-new", false); status != 404 {
		t.Errorf("a model of the next configuration: status %d, want 404", status)
	}
	write("[{name: gpt-fast, pool: small}, {name: gpt-new, pool: small}]")
	gateway.Process.Signal(syscall.SIGHUP)
	redistest.Until(t, "the new model", 20*time.Second, func() bool { status, _ := chat("gpt-new", true); return status == 200 })
	os.WriteFile(file, []byte("pools: nonsense"), 0o600)
	gateway.Process.Signal(syscall.SIGHUP)
	redistest.Until(t, "the refusal of a bad file", 20*time.Second, func() bool {
		return strings.Contains(logs.String(), "the old one stays")
	})
	if status, body := chat("gpt-new", false); status != 200 {
		t.Errorf("after a bad file: status %d: %s", status, body)
	}
}

// chatAs sends one request and returns its status and answer; the status is 0
// where there was none, and -1 where it broke off after its first token.
func chatAs(addr, key, model string, stream bool) (int, string) {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":20,"messages":[{"role":"user","content":"hello"}]}`, model, stream)
	r, _ := http.NewRequest("POST", "http://"+addr+"/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return -1, err.Error()
	}
	return resp.StatusCode, string(b)
}

// loseReplica sends requests and kills a replica in the middle.
func loseReplica(t *testing.T, chat func(string, bool) (int, string), victim *exec.Cmd) {
	t.Helper()
	const total = 150
	tick := time.NewTicker(20 * time.Millisecond) // 50 requests a second
	defer tick.Stop()
	var wg sync.WaitGroup
	var broken atomic.Int32
	for i := range total {
		<-tick.C
		if i == total/3 {
			victim.Process.Kill()
		}
		wg.Go(func() {
			switch status, body := chat("gpt-fast", i%2 == 0); status {
			case 200:
			case -1:
				broken.Add(1)
			default:
				t.Errorf("request %d: status %d: %s", i, status, body)
			}
		})
	}
	wg.Wait()
	t.Logf("%d of %d broke after their first token", broken.Load(), total)
}

// checkReport holds the usage file to the charges in Redis.
func checkReport(t *testing.T, bin, usage, redis string) {
	t.Helper()
	out, err := exec.Command(bin, "-json", "-redis", redis, usage).CombinedOutput()
	if err != nil {
		t.Errorf("usagereport: %v\n%s", err, out)
	}
	if !json.Valid(out) || !strings.Contains(string(out), `"acme"`) {
		t.Errorf("usagereport printed %s", out)
	}
}
