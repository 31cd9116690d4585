package trace_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/sim/fleet"
	"github.com/expediterhq/expediter/sim/trace"
)

func read(t *testing.T, text string, o trace.Options) *trace.Result {
	t.Helper()
	r, err := trace.Read(strings.NewReader(text), "x", o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	native = `{"block":64}
{"t":0.5,"tenant":"a","adapter":"l","prompt":200,"output":7,"max_tokens":9,"content":[1,18446744073709551615,3]}
{"t":0.25,"prompt":1,"output":1,"after":1}
`
	sessions = "session\tagent\tt_s\tthink_s\tinput_tokens\toutput_tokens\tapi_s\tblocks64\n" +
		"0\tmain\t0.00\t0.00\t130\t16\t7.3\t1-2\n" +
		"0\tmain\t19.00\t12.00\t190\t29\t9.1\t1-2;5\n" +
		"0\tagent_001\t3.00\t0.00\t70\t5\t1\t1\n" +
		"1\tmain\t0.00\t0.00\t130\t16\t7.3\t1-2\n"
)

func TestNative(t *testing.T) {
	r := read(t, native, trace.Options{})
	want := &fleet.Trace{Block: 64, Requests: []fleet.Request{
		{At: 500 * time.Millisecond, Tenant: "a", Adapter: "l", Prompt: 200, Output: 7, MaxTokens: 9, Content: []uint64{1, 1<<64 - 1, 3}},
		{At: 250 * time.Millisecond, After: 1, Prompt: 1, Output: 1},
	}}
	if r.Format != "native" || !reflect.DeepEqual(r.Trace, want) {
		t.Errorf("read %s %+v, want %+v", r.Format, r.Trace, want)
	}
	var b bytes.Buffer
	if err := trace.Write(&b, r.Trace); err != nil || b.String() != native {
		t.Errorf("written again, %v:\n%s\nwant\n%s", err, b.String(), native)
	}
}

func TestGzip(t *testing.T) {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, _ = zw.Write([]byte(native))
	_ = zw.Close()
	path := filepath.Join(t.TempDir(), "t.jsonl.gz")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := trace.Open(path, trace.Options{}); err != nil || len(r.Requests) != 2 {
		t.Errorf("Open = %v, %v, want 2 requests", r, err)
	}
	if _, err := trace.Read(bytes.NewReader(b.Bytes()[:40]), "cut.gz", trace.Options{}); err == nil {
		t.Error("a file that is cut off is accepted")
	}
}

// Mooncake's timestamps are buckets: requests are spread over them.
func TestMooncake(t *testing.T) {
	row := func(ms int) string {
		return fmt.Sprintf(`{"timestamp": %d, "input_length": 600, "output_length": 5, "hash_ids": [0, 9]}`+"\n", ms)
	}
	r := read(t, row(0)+row(0)+row(0)+row(3000)+row(9000)+row(9000), trace.Options{})
	var at []string
	for _, q := range r.Requests {
		at = append(at, q.At.String())
	}
	if got, want := strings.Join(at, " "), "0s 1s 2s 3s 9s 12s"; got != want {
		t.Errorf("times = %s, want %s", got, want)
	}
	if q := r.Requests[0]; r.Block != 512 || q.Prompt != 600 || q.Output != 5 || len(q.Content) != 2 {
		t.Errorf("block %d, request %+v", r.Block, q)
	}
}

func TestCSV(t *testing.T) {
	tests := []struct {
		name, text string
		want       []fleet.Request
	}{
		{"tenant", "t_s,tenant,input_tokens,output_tokens\n0.5,13,20,3\r\n", []fleet.Request{{At: 500 * time.Millisecond, Tenant: "13", Prompt: 20, Output: 3}}},
		{"no tenant", "t_s,input_tokens,output_tokens\n0,20,3\n", []fleet.Request{{Prompt: 20, Output: 3}}},
		{"no header", "0.25,20,3\n0.25,1,1\n", []fleet.Request{{At: 250 * time.Millisecond, Prompt: 20, Output: 3}, {At: 250 * time.Millisecond, Prompt: 1, Output: 1}}},
	}
	for _, tt := range tests {
		if got := read(t, tt.text, trace.Options{}).Requests; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestLengths(t *testing.T) {
	text := "input_tokens,output_tokens\n" + strings.Repeat("30,4\n", 2000)
	a := read(t, text, trace.Options{Rate: 20, Seed: 1})
	if d := a.Duration(); d < 90*time.Second || d > 110*time.Second {
		t.Errorf("2000 requests at 20 per second take %v", d)
	}
	if !reflect.DeepEqual(a, read(t, text, trace.Options{Rate: 20, Seed: 1})) || reflect.DeepEqual(a, read(t, text, trace.Options{Rate: 20, Seed: 2})) {
		t.Error("the arrivals do not follow from the seed")
	}
}

func TestSessions(t *testing.T) {
	r := read(t, sessions, trace.Options{Rate: 0.1})
	if len(r.Requests) != 4 || r.Block != 64 {
		t.Fatalf("read %+v", r.Trace)
	}
	var follower, sub *fleet.Request
	starts := map[string]time.Duration{}
	for i := range r.Requests {
		switch q := &r.Requests[i]; q.Prompt {
		case 190:
			follower = q
		case 70:
			sub = q
		case 130:
			starts[q.Tenant] = q.At
		}
	}
	if follower.At != 12*time.Second || r.Requests[follower.After-1].Prompt != 130 || r.Requests[follower.After-1].Tenant != "session-0" {
		t.Errorf("second request of the session = %+v", follower)
	}
	if sub.After != 0 || sub.At != starts["session-0"]+3*time.Second {
		t.Errorf("first request of the other agent = %+v, session began at %v", sub, starts["session-0"])
	}
	if starts["session-0"] >= starts["session-1"] {
		t.Errorf("sessions begin at %v", starts)
	}
	first := r.Requests[follower.After-1]
	if len(follower.Content) != 3 || !reflect.DeepEqual(follower.Content[:2], first.Content) {
		t.Errorf("contents %v and %v, want the same beginning", first.Content, follower.Content)
	}
	for _, q := range r.Requests {
		if q.Tenant == "session-1" && q.Content[0] == first.Content[0] {
			t.Error("two sessions share a block")
		}
	}
}

// A file of no known format is told what its first line may be.
func TestUnknownFormat(t *testing.T) {
	for first, want := range map[string]string{
		"t,prompt,output": "the first line tells no format: want a JSON object, a header of t_s,input_tokens,output_tokens, " +
			"t_s,tenant,input_tokens,output_tokens or input_tokens,output_tokens, or a row of time,input,output",
		`{"prompt":1}`: `the first object tells no format: want "t" or "block" as in the native format, or "timestamp" as in Mooncake's`,
		"session\tt_s": "the first line tells no format: with tabs, want sessions with the header " +
			`"session\tagent\tt_s\tthink_s\tinput_tokens\toutput_tokens\tapi_s\tblocks64"`,
	} {
		_, err := trace.Read(strings.NewReader(first+"\n0,1,1\n"), "day1.csv", trace.Options{})
		if err == nil || err.Error() != "trace: day1.csv:1: "+want {
			t.Errorf("Read of %q = %v, want %s", first, err, want)
		}
	}
}

func TestBadRows(t *testing.T) {
	const good = "0,20,3\n"
	tests := []struct{ name, text, line, want string }{
		{"empty", "", "", "is empty"},
		{"unknown", "hello\n", "x:1:", "tells no format"},
		{"unknown object", `{"a":1}`, "x:1:", "tells no format"},
		{"columns", good + "1,2\n", "x:2:", "columns"},
		{"negative prompt", good + "1,-2,3\n", "x:2:", "prompt is -2"},
		{"no output", good + good + "1,2,0\n", "x:3:", "output is 0"},
		{"absurd", good + "1,1999999999,3\n", "x:2:", "prompt is 1999999999"},
		{"not a number", good + "1,2,three\n", "x:2:", `"three"`},
		{"time", good + "NaN,2,3\n", "x:2:", "time is NaN"},
		{"past", "5,1,1\n4,1,1\n", "x:2:", "before"},
		{"negative time", good + "-1,1,1\n", "x:2:", "time is -1"},
		{"far future", good + "1e18,1,1\n", "x:2:", "time is 1e+18"},
		{"json", `{"t":1,"prompt":1,"output":1}` + "\n{", "x:2:", "EOF"},
		{"no t", `{"t":1,"prompt":1,"output":1}` + "\n" + `{"prompt":1,"output":1}`, "x:2:", "t is missing"},
		{"after the future", `{"t":1,"prompt":1,"output":1,"after":1}`, "x:1:", "after is 1"},
		{"limit", `{"t":1,"prompt":1,"output":5,"max_tokens":4}`, "x:1:", "max tokens"},
		{"two objects", `{"t":1,"prompt":1,"output":1}{}`, "x:1:", "behind"},
		{"block", `{"block":0.5}`, "x:1:", "block is 0.5"},
		{"runs", sessions + "0\tmain\t1\t1\t1\t1\t1\t9-1\n", "x:6:", `"9-1"`},
		{"long runs", sessions + "0\tmain\t1\t1\t1\t1\t1\t1-99999999\n", "x:6:", "block run"},
	}
	for _, tt := range tests {
		_, err := trace.Read(strings.NewReader(tt.text), "x", trace.Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.line) {
			t.Errorf("%s: error = %v, want one at %q that says %q", tt.name, err, tt.line, tt.want)
		}
	}
}

func TestLenient(t *testing.T) {
	r := read(t, "0,20,3\n1,-2,3\n2,500,3\n1,1,1\n3,4,5\n", trace.Options{Lenient: true, MaxPrompt: 100})
	if len(r.Requests) != 2 || r.Bad != 2 || r.Long != 1 {
		t.Errorf("%d requests, %d bad, %d long, want 2, 2, 1", len(r.Requests), r.Bad, r.Long)
	}
	var row *trace.RowError
	if !errors.As(r.Example, &row) || row.Line != 2 {
		t.Errorf("example = %v, want line 2", r.Example)
	}
	if r := read(t, "0,20,3\n1,1,1\n2,1,1\n", trace.Options{Rows: 2}); len(r.Requests) != 2 {
		t.Errorf("%d requests with Rows 2", len(r.Requests))
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{native, sessions, "0,20,3\n", "input_tokens,output_tokens\n1,2\n", `{"timestamp": 0, "input_length": 6, "output_length": 5, "hash_ids": [0]}`} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, lenient bool) {
		r, err := trace.Read(bytes.NewReader(data), "x", trace.Options{Lenient: lenient, Rows: 1000})
		if err != nil {
			return
		}
		if err := r.Validate(); err != nil {
			t.Errorf("accepted a trace that is not valid: %v", err)
		}
		var b bytes.Buffer
		if err := trace.Write(&b, r.Trace); err != nil {
			t.Fatal(err)
		}
		if len(r.Requests) == 0 {
			return
		}
		again, err := trace.Read(&b, "y", trace.Options{})
		if err != nil || len(again.Requests) != len(r.Requests) {
			t.Errorf("written and read again: %v", err)
		}
	})
}

// shared finds the folder of public traces beside the repository.
func shared(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("EXPEDITER_SHARED")
	for up := "."; dir == ""; up = filepath.Join(up, "..") {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			dir = filepath.Join(up, "..", "shared")
		}
		if len(up) > 40 {
			break
		}
	}
	dir = filepath.Join(dir, "traces")
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("EXPEDITER_REQUIRE_SHARED") == "1" {
			t.Fatalf("no traces: %v", err)
		}
		t.Skipf("no traces: %v", err)
	}
	return dir
}

// Every public trace can be read, and a part of it played.
func TestSharedTraces(t *testing.T) {
	if raced {
		t.Skip("a million rows, read by one goroutine")
	}
	dir := shared(t)
	for name, want := range map[string]struct {
		format string
		rows   int
	}{
		"mooncake_conversation_0-2100s.jsonl.gz": {"mooncake", 6758}, "reference_warm_200tenants.jsonl.gz": {"mooncake", 30000},
		"azure23_conv.csv.gz": {"csv", 9732}, "azure23_code.csv.gz": {"csv", 5544}, "reference_cold.csv.gz": {"csv", 30000},
		"vtc_arena.csv.gz": {"csv", 713}, "servegen_r1.csv.gz": {"csv", 35997}, "servegen_mlarge.csv.gz": {"csv", 27007},
		"servegen_mmid.csv.gz": {"csv", 89997}, "servegen_msmall.csv.gz": {"csv", 134900},
		"arxiv_lengths.csv.gz": {"lengths", 14129}, "agentic_claude_code.tsv.gz": {"sessions", 22892},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := trace.Open(filepath.Join(dir, name), trace.Options{Lenient: true})
			if err != nil {
				t.Fatal(err)
			}
			if r.Format != want.format || len(r.Requests)+r.Bad != want.rows {
				t.Errorf("%s with %d requests and %d bad rows, want %s with %d in all", r.Format, len(r.Requests), r.Bad, want.format, want.rows)
			}
			if r.Bad > want.rows/100 {
				t.Errorf("%d bad rows, such as %v", r.Bad, r.Example)
			}
			part, err := trace.Open(filepath.Join(dir, name), trace.Options{Lenient: true, Rows: 200, MaxPrompt: 32000})
			if err != nil {
				t.Fatal(err)
			}
			rep, err := fleet.Run(fleet.Config{Replicas: fleet.Uniform(8, sim.Llama8BA100()), MaxWait: time.Hour}, part.Trace)
			if err != nil || rep.Finished != rep.Requests {
				t.Errorf("played: %v, %v", rep, err)
			}
		})
	}
}
