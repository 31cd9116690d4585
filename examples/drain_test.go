package examples_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/internal/redistest"
)

// slowReplicas are scripted replicas that send a token every 100 ms.
func slowReplicas(t *testing.T, n int) (urls []string, ledger *faultbench.Ledger) {
	t.Helper()
	ledger = new(faultbench.Ledger)
	for range n {
		r := &faultbench.Replica{Model: "acme-8b", KV: 10_000_000, Ledger: ledger, Respond: func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			s.Pace = 100 * time.Millisecond
			return s.Script()
		}}
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Stop)
		urls = append(urls, fmt.Sprintf("%q", r.URL()))
	}
	return urls, ledger
}

// TestQ1SIGTERM: the gateway as a process with 200 streams gets a SIGTERM.
// Readiness goes first; streams that fit into the grace are complete, the
// others end with an error event and abnormally; new requests are refused with
// a 503 on a connection that closes; the exit code is 0; every record is there.
func TestQ1SIGTERM(t *testing.T) {
	const streams, short = 200, 150
	urls, ledger := slowReplicas(t, 2)
	bin, dir, addr := build(t, "gateway"), t.TempDir(), freeAddr(t)
	out, err := exec.Command(bin, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(out))
	file, usage := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "usage.jsonl")
	yaml := fmt.Sprintf("listen: %s\ngrace: 12s\npools:\n  - {name: small, served: acme-8b, replicas: [%s]}\nmodels: [{name: gpt-fast, pool: small}]\n"+
		"tenants: [{id: acme, keys: [%s]}]\nusage: {file: %s}\n", addr, strings.Join(urls, ", "), fields[3], usage)
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway, _ := run(t, "http://"+addr+"/readyz", bin, "-config", file)
	c := caller{url: "http://" + addr, key: fields[1]}
	var wg sync.WaitGroup
	var complete, cut atomic.Int32
	for i := range streams {
		wg.Go(func() {
			tokens := 3 + i%8
			if i >= short {
				tokens = 5000
			}
			body, err := c.stream(tokens)
			switch {
			case i < short && err == nil && strings.HasSuffix(body, "data: [DONE]\n\n"):
				complete.Add(1)
			case i >= short && err != nil && strings.Contains(body, `"code":"shutting_down"`):
				cut.Add(1)
			default:
				t.Errorf("a stream of %d tokens: %v, %.300s", tokens, err, body[max(0, len(body)-300):])
			}
		})
	}
	redistest.Until(t, "all streams", 20*time.Second, func() bool { return ledger.Len() == streams })
	if err := gateway.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "readiness to go", 20*time.Second, func() bool {
		resp, err := http.Get(c.url + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == 503
	})
	resp, err := c.post(1)
	if err != nil {
		t.Errorf("a new request: %v", err)
	} else if resp.Body.Close(); resp.StatusCode != 503 || !resp.Close || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a new request: %+v; want a 503 that closes the connection", resp)
	}
	wg.Wait()
	if complete.Load() != short || cut.Load() != streams-short {
		t.Errorf("%d complete and %d cut, want %d and %d", complete.Load(), cut.Load(), short, streams-short)
	}
	if err := gateway.Wait(); err != nil {
		t.Errorf("the gateway ended with %v, want exit code 0", err)
	}
	if got := statuses(t, usage); got["ok"] != short || got["truncated"] != streams-short || len(got) != 2 {
		t.Errorf("records by status: %v", got)
	}
}

// caller is a client of a gateway.
type caller struct{ url, key string }

func (c caller) post(tokens int) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":"gpt-fast","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"hello"}]}`, tokens)
	r, err := http.NewRequest(http.MethodPost, c.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.key)
	return http.DefaultClient.Do(r)
}

func (c caller) stream(tokens int) (string, error) {
	resp, err := c.post(tokens)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// statuses counts the records of a usage file.
func statuses(t *testing.T, path string) map[string]int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	count := make(map[string]int)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Errorf("%v: %s", err, lines.Bytes())
		}
		count[r.Status]++
	}
	return count
}
