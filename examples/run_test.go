// Package examples_test builds and runs every example for real.
package examples_test

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// build compiles one example and returns the program's path.
func build(t *testing.T, name string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", bin, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return bin
}

// start runs a program until the test ends and returns its output line by
// line. stop sends it a signal and reports how it ended.
func start(t *testing.T, bin string, args ...string) (lines *bufio.Scanner, stop func(os.Signal) error) {
	t.Helper()
	cmd := exec.Command(bin, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var logs bytes.Buffer
	cmd.Stderr = &logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		if t.Failed() {
			t.Logf("%s said: %s", filepath.Base(bin), logs.String())
		}
	})
	return bufio.NewScanner(out), func(sig os.Signal) error {
		cmd.Process.Signal(sig)
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case err := <-done:
			return err
		case <-time.After(30 * time.Second):
			return os.ErrDeadlineExceeded
		}
	}
}

var curl = regexp.MustCompile(`^curl -sS (?:-N )?(http://\S+) -H '([^:]+): ([^']+)'(?: -H 'Content-Type: application/json' -d '(.*)')?$`)

// do sends what a printed curl line says.
func do(t *testing.T, line string) (*http.Response, string) {
	t.Helper()
	m := curl.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("not the expected form of a curl line: %s", line)
	}
	method := http.MethodGet
	if m[4] != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequest(method, m[1], strings.NewReader(m[4]))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(m[2], m[3])
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// TestServers starts the servers among the examples, does what they print,
// and stops them.
func TestServers(t *testing.T) {
	for name, tc := range map[string]struct {
		want int // curl lines
		end  os.Signal
	}{"gateway": {4, os.Interrupt}, "embed": {1, syscall.SIGTERM}} {
		t.Run(name, func(t *testing.T) {
			want := tc.want
			lines, stop := start(t, build(t, name), "-addr", "127.0.0.1:0")
			done := 0
			for done < want && lines.Scan() {
				if !strings.HasPrefix(lines.Text(), "curl") {
					continue
				}
				done++
				resp, body := do(t, lines.Text())
				if resp.StatusCode != 200 {
					t.Errorf("%s\nstatus %d: %s", lines.Text(), resp.StatusCode, body)
				}
				if strings.Contains(lines.Text(), `"stream":true`) && !strings.HasSuffix(body, "data: [DONE]\n\n") {
					t.Errorf("%s\nthe stream has no end: %s", lines.Text(), body)
				}
			}
			if done < want {
				t.Errorf("printed %d curl lines, want %d", done, want)
			}
			if err := stop(tc.end); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// TestHelp: -h prints the flags and no error.
func TestHelp(t *testing.T) {
	for _, name := range []string{"gateway"} {
		out, err := exec.Command(build(t, name), "-h").CombinedOutput()
		if err != nil {
			t.Errorf("%s -h ended with %v, want status 0", name, err)
		}
		if text := string(out); !strings.HasPrefix(text, "Usage of "+name+":") || strings.Contains(text, "help requested") {
			t.Errorf("%s -h printed %s", name, text)
		}
	}
}

var verdict = regexp.MustCompile(`^prompt of +(\d+) tokens:  steady ([\d.]+) \+ ([\d.]+) tax  cheap ([\d.]+) \+ ([\d.]+) tax  -> (steady|cheap)$`)

// TestCustomScorer: only the cheap replica is taxed, by the length of the
// request; a short prompt goes there, a long one to the steady replica
// although that is busy, and each to the one that costs less.
func TestCustomScorer(t *testing.T) {
	out, err := exec.Command(build(t, "customscorer")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	went := ""
	for line := range strings.Lines(string(out)) {
		m := verdict.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		var n [6]float64 // the numbers, by their place in the line
		for i := 1; i <= 5; i++ {
			if n[i], err = strconv.ParseFloat(m[i], 64); err != nil {
				t.Fatal(err)
			}
		}
		if n[3] != 0 || math.Abs(n[5]-(n[1]+200)*100e-6) > 0.0006 {
			t.Errorf("%s: wrong tax", line)
		}
		if cheap := n[4]+n[5] < n[2]; cheap != (m[6] == "cheap") {
			t.Errorf("%s: not the one that costs less", line)
		}
		went += m[6][:1]
	}
	if len(went) != 6 || strings.Trim(went, "c") == "" || strings.Trim(strings.TrimLeft(went, "c"), "s") != "" || went[0] != 'c' {
		t.Errorf("six prompts of growing length went %q, want short ones to c and long ones to s\n%s", went, out)
	}
}
