package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// start runs the program in this process and returns the addresses it prints.
func start(t *testing.T, args ...string) (addrs map[string]string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, args, in)
		_ = in.CloseWithError(io.EOF)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run = %v, want nil after the signal", err)
		}
	})
	addrs = map[string]string{}
	lines := bufio.NewScanner(out)
	for range 1 + strings.Count(strings.Join(args, " "), "127.0.0.1:0") - 1 {
		if !lines.Scan() {
			t.Fatal("the program ended")
		}
		what, addr, _ := strings.Cut(lines.Text(), " on ")
		addrs[what] = addr
	}
	return addrs
}

func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, string(b) + err.Error()
	}
	return resp.StatusCode, string(b)
}

const any = "127.0.0.1:0"

func TestReplica(t *testing.T) {
	addrs := start(t, "-addr", any, "-control", any, "-kv-events", any, "-kv-replay", any, "-model", "acme", "-adapters", "legal,sql",
		"-aliases", "gpt", "-speed", "200", "-profile", "70b-tp2-a100", "-fault", "marker=poison:status=503")
	url, ctl := addrs["acme (70b-tp2-a100)"], addrs["control"]
	for _, model := range []string{"acme", "gpt", "sql"} {
		status, body := ask(t, "POST", url+"/v1/completions", `{"model":"`+model+`","prompt":"hello","max_tokens":3}`)
		if status != 200 || !strings.Contains(body, `"completion_tokens":3`) {
			t.Errorf("%s: %d %s", model, status, body)
		}
	}
	if status, body := ask(t, "POST", url+"/v1/completions", `{"prompt":"poison"}`); status != 503 {
		t.Errorf("marked request: %d %s, want 503", status, body)
	}
	if status, body := ask(t, "POST", ctl+"/fault?rules=all:hangup", ""); status != 200 {
		t.Errorf("fault: %d %s", status, body)
	}
	if status, body := ask(t, "POST", url+"/v1/completions", `{"prompt":"hello"}`); status != 0 {
		t.Errorf("request to be cut: %d %s", status, body)
	}
	for path, want := range map[string]int{"/health?status=503": 200, "/health?status=9": 400, "/speed?x=0": 400, "/fault?rules=x": 400, "/metrics?noise=1": 400} {
		if status, body := ask(t, "POST", ctl+path, ""); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	if status, _ := ask(t, "GET", url+"/health", ""); status != 503 {
		t.Errorf("health = %d, want 503 as switched", status)
	}
	if status, body := ask(t, "GET", ctl+"/stats", ""); status != 200 || !strings.Contains(body, `"Generated":9`) {
		t.Errorf("stats: %d %s", status, body)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(addrs["KV events"], "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if b := make([]byte, 64); func() error { _, err := io.ReadFull(conn, b); return err }() != nil || b[0] != 0xff {
		t.Errorf("KV event socket greets with %x", b)
	}
}

func TestTokenizerFlag(t *testing.T) {
	dir, err := filepath.Abs("../../tokenize/demo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no model folder")
	}
	addrs := start(t, "-addr", any, "-tokenizer", dir, "-speed", "1000")
	status, body := ask(t, "POST", addrs["acme-8b (8b-a100)"]+"/tokenize", `{"messages":[{"role":"user","content":"hello hello hello hello"}]}`)
	if status != 200 || !strings.Contains(body, `"count":`) {
		t.Errorf("tokenize: %d %s", status, body)
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-profile", "tpu"}, {"-speed", "0"}, {"-speed", "NaN"}, {"-kv", "3"}, {"-max-model-len", "99999999"}, {"-fault", "x"}, {"-model", ""},
		{"-kv-replay", any}, {"extra"}, {"-tokenizer", "/nonexistent"}, {"-addr", "nowhere"}, {"-max-loras", "-1"}, {"-shutdown-timeout", "-1s"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := run(ctx, args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

// A profile from a file goes by the name that it has there.
func TestProfileName(t *testing.T) {
	const hardware = `"base_us": 600, "linear_us": [[1, 10100], [2048, 115000]], "kv_tokens": 443200, "max_batched_tokens": 2048, "max_seqs": 256}`
	dir := t.TempDir()
	named, nameless := filepath.Join(dir, "file.json"), filepath.Join(dir, "nameless.json")
	for path, text := range map[string]string{named: `{"name": "mine", ` + hardware, nameless: "{" + hardware} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for profile, want := range map[string]string{"8b-a100": "acme-8b (8b-a100)", named: "acme-8b (mine)", nameless: "acme-8b (" + nameless + ")"} {
		if addrs := start(t, "-addr", any, "-profile", profile); addrs[want] == "" {
			t.Errorf("-profile %s prints %v, want %s", profile, addrs, want)
		}
	}
}

// The help has the same words as the errors of sim.ParseFaults.
func TestFaultHelp(t *testing.T) {
	for rule, want := range map[string]string{"foo:reset": "WHEN is ", "all:foo": "WHAT is ", "all:reset@foo": "PHASE is "} {
		err := run(t.Context(), []string{"-fault", rule}, io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), `-fault: sim: fault "`+rule+`": "foo" is no `) {
			t.Errorf("-fault %s: %v", rule, err)
			continue
		}
		if _, words, _ := strings.Cut(err.Error(), ", want "); !strings.Contains(faultHelp, want+words) {
			t.Errorf("the help does not say %q", want+words)
		}
	}
}

// An error tells where files were looked for.
func TestNamesTheFolder(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	err := run(t.Context(), []string{"-tokenizer", absent}, io.Discard)
	want := `-tokenizer: cannot load the folder "` + absent + `": tokenize: open tokenizer.json: no such file or directory`
	if err == nil || err.Error() != want {
		t.Errorf("run = %v, want %s", err, want)
	}
}

// What runs at SIGTERM may finish within the time-out, and is aborted without.
func TestShutdown(t *testing.T) {
	for timeout, want := range map[string]string{"30s": `"finish_reason":"length"`, "0s": `"finish_reason":"abort"`} {
		ctx, cancel := context.WithCancel(context.Background())
		out, in := io.Pipe()
		done := make(chan error, 1)
		go func() {
			done <- run(ctx, []string{"-addr", any, "-speed", "20", "-shutdown-timeout", timeout}, in)
			_ = in.Close()
		}()
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_, url, _ := strings.Cut(strings.TrimSpace(line), " on ")
		resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"hello","max_tokens":300,"ignore_eos":true,"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("time-out %s: %v, want %s in the end of\n%.300s", timeout, err, want, b[max(len(b)-300, 0):])
		}
		if err := <-done; err != nil {
			t.Errorf("run = %v", err)
		}
	}
}
