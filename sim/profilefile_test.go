package sim_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/sim"
)

const profileJSON = `{"name":"mine","base_us":600.5,"linear_us":[[1,10000],[2048,115000]],"slope_us":56,"kv_token_ps":85000,"pair_ps":3300,
	"kv_tokens":40000,"max_seqs":64,"adapter_disk_us":42000,"adapter_copy_us":4200}`

func TestReadProfile(t *testing.T) {
	got, err := sim.ReadProfile(strings.NewReader(profileJSON))
	if err != nil {
		t.Fatal(err)
	}
	want := sim.Profile{
		Name: "mine", Base: 600500, Linear: []sim.Point{{Tokens: 1, Time: 10 * time.Millisecond}, {Tokens: 2048, Time: 115 * time.Millisecond}},
		Slope: 56 * time.Microsecond, KVToken: 85000, Pair: 3300, KVTokens: 40000, BlockSize: 16, MaxBatchedTokens: 2048, MaxSeqs: 64,
		AdapterDisk: 42 * time.Millisecond, AdapterCopy: 4200 * time.Microsecond,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("ReadProfile = %+v, want %+v", got, want)
	}
}

func TestReadProfileRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{``, "EOF"}, {`[]`, "array"}, {`{"speed":1}`, "speed"}, {profileJSON + `{}`, "nothing behind"},
		{`{"base_us":-1,"kv_tokens":100}`, "base_us"}, {`{"base_us":1}`, "KVTokens"}, {`{"kv_tokens":100}`, "no time"},
		{`{"kv_tokens":100,"linear_us":[[1.5,1]]}`, "linear_us[0]"}, {`{"kv_tokens":100,"linear_us":[[1,1],[1,2]]}`, "Linear[1]"},
		{`{"kv_tokens":100,"linear_us":[[1,1e300]]}`, "linear_us[0]"},
		{`{"kv_tokens":100,"base_us":1,"pair_ps":9000000000000000000}`, "pair_ps"},
	} {
		if p, err := sim.ReadProfile(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v, want an error about %q", tt.text, p, err, tt.want)
		}
	}
}

func TestFindProfile(t *testing.T) {
	for _, name := range sim.ProfileNames() {
		if p, err := sim.FindProfile(name); err != nil || p.Validate() != nil {
			t.Errorf("%s: %v, %v", name, err, p.Validate())
		}
	}
	path := filepath.Join(t.TempDir(), "mine.json")
	if err := os.WriteFile(path, []byte(profileJSON), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := sim.FindProfile(path); err != nil || p.Name != "mine" {
		t.Errorf("FindProfile(%s) = %q, %v", path, p.Name, err)
	}
	for name, want := range map[string]string{"tpu": "8b-a100", "/nonexistent/x.json": "no such file"} {
		if _, err := sim.FindProfile(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("FindProfile(%s) = %v, want an error with %q", name, err, want)
		}
	}
}

// What is read is a profile whose steps take time that does not overflow.
func FuzzReadProfile(f *testing.F) {
	f.Add([]byte(profileJSON))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := sim.ReadProfile(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		for _, m := range []int{1, 7, p.MaxBatchedTokens} {
			if d := p.StepTime(sim.Work{Tokens: min(m, 1<<20)}); d < 0 {
				t.Errorf("a step of %d tokens takes %v", m, d)
			}
		}
	})
}
