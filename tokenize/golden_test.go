package tokenize_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/expediterhq/expediter/tokenize"
)

// goldenModels are the models whose ids were recorded with the reference
// implementation, the Rust crate tokenizers 0.23.2.
var goldenModels = []string{"qwen3", "gptoss", "deepseek_v3", "mistral_nemo", "mistral_v3"}

// testedModels are the models of the tests that compare with recorded data.
// With the race detector, which multiplies the time of loading a model by ten,
// one of each kind is enough: these tests run in one goroutine, and what they
// compare is seen without it.
func testedModels() []string {
	if raceEnabled {
		return []string{"qwen3", "mistral_v3"}
	}
	return goldenModels
}

type goldenText struct {
	ID   string `json:"id"`
	Cat  string `json:"cat"`
	Text string `json:"text"`
}

type goldenIDs struct {
	ID      string   `json:"id"`
	IDs     []uint32 `json:"ids"`
	Special []uint32 `json:"ids_special"`
}

// goldenDir returns the folder of the reference data, which is too large for
// the repository: $EXPEDITER_SHARED, or a folder "shared" beside the checkout.
func goldenDir(t testing.TB) string {
	t.Helper()
	shared := os.Getenv("EXPEDITER_SHARED")
	if shared == "" {
		shared = filepath.Join(repositoryRoot(t), "..", "shared")
	}
	dir := filepath.Join(shared, "golden", "tokenize")
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("EXPEDITER_REQUIRE_SHARED") == "1" {
			t.Fatalf("reference data missing: %v", err)
		}
		t.Skipf("reference data missing: %v", err)
	}
	return dir
}

func repositoryRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the package")
		}
		dir = up
	}
}

func readGzip(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return unzip(t, packed)
}

func unzip(t testing.TB, packed []byte) []byte {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readLines[T any](t testing.TB, name string) []T {
	t.Helper()
	var out []T
	for line := range splitLines(readGzip(t, name)) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, v)
	}
	return out
}

func splitLines(data []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			i := slices.Index(data, '\n')
			if i < 0 {
				i = len(data) - 1
			}
			if !yield(data[:i+1]) {
				return
			}
			data = data[i+1:]
		}
	}
}

var (
	goldenMu     sync.Mutex
	goldenLoaded = map[string]*tokenize.BPE{}
)

// goldenModel loads a model of the reference data once per test binary.
func goldenModel(t testing.TB, name string) *tokenize.BPE {
	t.Helper()
	dir := goldenDir(t)
	goldenMu.Lock()
	defer goldenMu.Unlock()
	if b := goldenLoaded[name]; b != nil {
		return b
	}
	b, err := tokenize.NewBPE(readGzip(t, filepath.Join(dir, "tokenizers", name, "tokenizer.json.gz")))
	if err != nil {
		t.Fatalf("NewBPE(%s): %v", name, err)
	}
	goldenLoaded[name] = b
	return b
}

func goldenTexts(t testing.TB) map[string]goldenText {
	t.Helper()
	texts := map[string]goldenText{}
	for _, text := range readLines[goldenText](t, filepath.Join(goldenDir(t), "texts.jsonl.gz")) {
		texts[text.ID] = text
	}
	return texts
}

func TestGoldenIDs(t *testing.T) {
	dir := goldenDir(t)
	texts := goldenTexts(t)
	for _, name := range testedModels() {
		t.Run(name, func(t *testing.T) {
			b := goldenModel(t, name)
			lines := readLines[goldenIDs](t, filepath.Join(dir, "ids-"+name+".jsonl.gz"))
			if len(lines) < 500 {
				t.Fatalf("only %d lines of reference ids", len(lines))
			}
			bad := 0
			for _, want := range lines {
				text := texts[want.ID]
				if want.Special == nil {
					want.Special = want.IDs
				}
				got, err := b.Append(nil, text.Text)
				special, err2 := b.AppendWith(nil, text.Text, tokenize.Options{Special: true})
				count, err3 := b.Count(text.Text)
				if err != nil || err2 != nil || err3 != nil {
					t.Fatalf("%s: errors %v, %v, %v", want.ID, err, err2, err3)
				}
				if slices.Equal(got, want.IDs) && slices.Equal(special, want.Special) && count == len(want.IDs) {
					continue
				}
				if bad++; bad <= 5 {
					at := firstDifference(got, want.IDs)
					t.Errorf("%s (%s): %d ids, count %d, want %d; first difference at %d: %v, want %v",
						want.ID, text.Cat, len(got), count, len(want.IDs), at, around(got, at), around(want.IDs, at))
				}
			}
			if bad > 0 {
				t.Errorf("%d of %d texts differ", bad, len(lines))
			}
		})
	}
}

func firstDifference(a, b []uint32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func around(ids []uint32, at int) []uint32 { return ids[max(at-2, 0):min(at+4, len(ids))] }
