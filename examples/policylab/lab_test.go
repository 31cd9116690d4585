package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func play(t *testing.T, args ...string) (out, progress string) {
	t.Helper()
	var o, p bytes.Buffer
	if err := run(context.Background(), args, &o, &p); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, p.String())
	}
	return o.String(), p.String()
}

const shape = "groups=10,zipf=1,shared=512,prompt=100,output=40,rate=10,duration=10s,spread=0.5"

func TestTable(t *testing.T) {
	out, progress := play(t, "-workload", shape, "-fleet", "3x8b-a100,1x8b-a100*2", "-policies", "roundrobin,marginal", "-seeds", "3", "-parallel", "2")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "roundrobin") || !strings.Contains(lines[2], "marginal") || !strings.Contains(lines[2], "±") {
		t.Errorf("table =\n%s", out)
	}
	if !strings.Contains(progress, "6/6") {
		t.Errorf("progress =\n%s", progress)
	}
}

// The same flags give the same figures, however many runs go on at a time.
func TestJSONIsDeterministic(t *testing.T) {
	var docs []map[string]any
	for _, parallel := range []string{"1", "4"} {
		out, _ := play(t, "-workload", shape, "-fleet", "4x8b-a100", "-policies", "p2c,lmetric", "-seeds", "2", "-speed", "1,3", "-gateways", "2", "-json", "-parallel", parallel)
		var doc map[string]any
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatal(err)
		}
		delete(doc, "took_seconds")
		docs = append(docs, doc)
	}
	a, _ := json.Marshal(docs[0])
	b, _ := json.Marshal(docs[1])
	if string(a) != string(b) {
		t.Errorf("figures differ:\n%s\n%s", a, b)
	}
	if rows := docs[0]["rows"].([]any); len(rows) != 4 {
		t.Errorf("%d rows, want 2 policies at 2 speeds", len(rows))
	}
}

func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	play(t, "-workload", shape, "-fleet", "4x8b-a100", "-policies", "roundrobin,sticky,marginal", "-speed", "1,2", "-html", path)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, foreign := range []string{"http://", "https://", "<script", "src="} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page is not self-contained: it has %q", foreign)
		}
	}
	plots := 0
	for part := range strings.SplitSeq(page, "<svg") {
		body, _, ok := strings.Cut(part, "</svg>")
		if !ok {
			continue
		}
		plots++
		d := xml.NewDecoder(strings.NewReader("<svg" + body + "</svg>"))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("plot %d is not well-formed: %v", plots, err)
			}
		}
		if strings.Contains(body, "NaN") || strings.Contains(body, "Inf") {
			t.Errorf("plot %d has a point that is no number", plots)
		}
	}
	if plots != 3+2+2*3 {
		t.Errorf("%d plots, want load, TTFT, TPOT, two scales and two maps for each of 3 policies", plots)
	}
}

// Whether the page can be written is known before anything is simulated, and
// finding out changes nothing.
func TestPageIsCheckedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	kept, fresh := filepath.Join(dir, "kept.html"), filepath.Join(dir, "fresh.html")
	if err := os.WriteFile(kept, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ path, want string }{
		{filepath.Join(dir, "nowhere", "page.html"), "-html: open " + filepath.Join(dir, "nowhere", "page.html") + ": no such file or directory"},
		{dir, "-html: open " + dir + ": is a directory"},
		{kept, "context canceled"},
		{fresh, "context canceled"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var progress bytes.Buffer
		err := run(ctx, []string{"-workload", shape, "-html", tc.path}, io.Discard, &progress)
		if err == nil || err.Error() != tc.want {
			t.Errorf("-html %s: %v, want %s", tc.path, err, tc.want)
		}
		if begun := progress.Len() > 0; begun != (tc.want == "context canceled") {
			t.Errorf("-html %s: progress =\n%s", tc.path, progress.String())
		}
	}
	if b, err := os.ReadFile(kept); err != nil || string(b) != "before" {
		t.Errorf("the page from before holds %q, %v", b, err)
	}
	if _, err := os.Lstat(fresh); !os.IsNotExist(err) {
		t.Errorf("a page is left where none was: %v", err)
	}
}

func TestTraceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	rows := "t_s,tenant,input_tokens,output_tokens\n" + strings.Repeat("0.5,a,100,5\n", 20) + "0.6,a,0,5\n0.7,a,999999,5\n"
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), []string{"-trace", path}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "t.csv:22:") {
		t.Errorf("bad row: %v, want file and line", err)
	}
	_, progress := play(t, "-trace", path, "-lenient", "-policies", "marginal", "-fleet", "2x8b-a100")
	if !strings.Contains(progress, "20 requests") || !strings.Contains(progress, "1 left out for their length") || !strings.Contains(progress, "1 bad rows") {
		t.Errorf("progress =\n%s", progress)
	}
}

func TestPresets(t *testing.T) {
	for name := range presets {
		wl, err := parseWorkload(name)
		if err != nil || wl.Validate() != nil {
			t.Errorf("%s: %v, %v", name, err, wl.Validate())
		}
	}
}

// A profile of one's own is a file.
func TestProfileFile(t *testing.T) {
	out, _ := play(t, "-workload", shape, "-fleet", "1x"+filepath.Join("profiles", "70b-tp8-a800.json")+"*2,1x8b-a100", "-policies", "roundrobin")
	if !strings.Contains(out, "roundrobin") {
		t.Errorf("table =\n%s", out)
	}
}

func TestMistakes(t *testing.T) {
	good := []string{"-workload", shape}
	for _, args := range [][]string{
		{}, {"-trace", "a", "-workload", "b2b"}, {"-trace", "/nonexistent"}, {"-workload", "nothing"}, {"-workload", "rate=x"}, {"-workload", "groups=-1,rate=1,duration=1s"},
		append(good, "-fleet", "x8b-a100"), append(good, "-fleet", "2xtpu"), append(good, "-fleet", "2xtpu.json"), append(good, "-fleet", "2x8b-a100*0"), append(good, "-speed", "0"), append(good, "-speed", "1,x"),
		append(good, "-policies", "magic"), append(good, "-seeds", "0"), append(good, "-headroom", "1"), append(good, "-scrape", "0s"), append(good, "extra"),
	} {
		if err := run(context.Background(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

// Who gets the name of a workload wrong is told the right ones.
func TestUnknownWorkload(t *testing.T) {
	for spec, part := range map[string]string{"foo": "foo", "rate=1,foo=2": "foo=2"} {
		err := run(t.Context(), []string{"-workload", spec}, io.Discard, io.Discard)
		want := `-workload has "` + part + `": no such setting or preset; presets are b2b, bursts, lora, tenants, settings adapters, ` +
			"adapterzipf, asked, burst, duration, groups, most, output, period, prompt, rate, shared, spread, tenants, tenantzipf, zipf"
		if err == nil || err.Error() != want {
			t.Errorf("-workload %s: %v, want %s", spec, err, want)
		}
	}
}

// A trace of one request has the rate of its answer.
func TestOneRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one.csv")
	if err := os.WriteFile(path, []byte("0,100,50\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := play(t, "-trace", path, "-fleet", "1x8b-a100", "-policies", "marginal", "-json")
	var doc struct {
		Rows []struct {
			Figures map[string]struct{ Mean float64 }
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if f := doc.Rows[0].Figures; f["good_rate"].Mean <= 0 || f["good_rate"].Mean*50 != f["output_rate"].Mean {
		t.Errorf("%v good requests of 50 tokens per second, and %v tokens", f["good_rate"].Mean, f["output_rate"].Mean)
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ctx, []string{"-workload", shape, "-parallel", "1"}, io.Discard, io.Discard); err != context.Canceled {
		t.Errorf("interrupted: %v", err)
	}
}

// A part of a public trace through all rules, as a reader of the README would
// run it: who knows the caches finds more in them and answers sooner.
func TestConversations(t *testing.T) {
	out, progress := play(t, "-trace", filepath.Join("testdata", "conversation.jsonl.gz"), "-fleet", "6x8b-a100", "-speed", "2", "-max-prompt", "32000", "-json")
	var doc struct {
		Long int `json:"long_prompts"`
		Rows []struct {
			Policy  string
			Figures map[string]struct{ Mean float64 }
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Long != 36 || !strings.Contains(progress, "364 requests") || !strings.Contains(progress, "8/8") {
		t.Errorf("%d long prompts left out, want 36; progress =\n%s", doc.Long, progress)
	}
	hits, ttft := map[string]float64{}, map[string]float64{}
	for _, r := range doc.Rows {
		hits[r.Policy], ttft[r.Policy] = r.Figures["hit_rate"].Mean, r.Figures["ttft_mean_ms"].Mean
	}
	for _, aware := range []string{"lmetric", "marginal"} {
		for _, blind := range []string{"roundrobin", "leastrequest", "p2c"} {
			if hits[aware] < hits[blind]+3 || ttft[aware] > 0.9*ttft[blind] {
				t.Errorf("%s: %.1f%% hits, TTFT %.0f ms; %s: %.1f%%, %.0f ms", aware, hits[aware], ttft[aware], blind, hits[blind], ttft[blind])
			}
		}
	}
}
