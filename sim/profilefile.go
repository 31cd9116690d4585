package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

func builtIn() map[string]func() Profile {
	return map[string]func() Profile{
		"8b-a100":      Llama8BA100,
		"70b-tp2-a100": Llama70BTP2A100,
		"32b-tp2-h100": Qwen32BTP2H100,
	}
}

// ProfileNames returns the names that FindProfile knows.
func ProfileNames() []string { return slices.Sorted(maps.Keys(builtIn())) }

// FindProfile returns the built-in Profile of that name, or if it ends in
// .json the one that ReadProfile finds in the file of that name.
func FindProfile(name string) (Profile, error) {
	if f := builtIn()[name]; f != nil {
		return f(), nil
	}
	if !strings.HasSuffix(name, ".json") {
		return Profile{}, fmt.Errorf("sim: profile %q: expected a file that ends in .json or one of %s", name, strings.Join(ProfileNames(), ", "))
	}
	f, err := os.Open(name)
	if err != nil {
		return Profile{}, fmt.Errorf("sim: profile: %w", err)
	}
	p, err := ReadProfile(f)
	return p, errors.Join(err, f.Close())
}

// profileFile is a Profile with the units in its names.
type profileFile struct {
	Name             string       `json:"name"`
	Base             float64      `json:"base_us"`
	Linear           [][2]float64 `json:"linear_us"` // tokens, time
	Slope            float64      `json:"slope_us"`
	KVToken          int64        `json:"kv_token_ps"`
	Pair             int64        `json:"pair_ps"`
	KVTokens         int          `json:"kv_tokens"`
	BlockSize        int          `json:"block_size"`
	MaxBatchedTokens int          `json:"max_batched_tokens"`
	MaxSeqs          int          `json:"max_seqs"`
	AdapterDisk      float64      `json:"adapter_disk_us"`
	AdapterCopy      float64      `json:"adapter_copy_us"`
}

// ReadProfile reads a Profile from JSON whose members are the fields in snake
// case with their unit: name, base_us, linear_us (pairs of tokens and time),
// slope_us, kv_token_ps, pair_ps, kv_tokens, block_size, max_batched_tokens,
// max_seqs, adapter_disk_us and adapter_copy_us. Other members are refused,
// and so is a Profile that Validate refuses.
func ReadProfile(r io.Reader) (Profile, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var f profileFile
	if err := d.Decode(&f); err != nil {
		return Profile{}, fmt.Errorf("sim: profile: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Profile{}, errors.New("sim: profile: expected nothing behind the object")
	}
	var bad error
	us := func(field string, v float64) time.Duration {
		if !(v >= 0 && v <= 1e9) {
			bad = errors.Join(bad, fmt.Errorf("sim: profile %q: %s is %v, want 0 to 10^9", f.Name, field, v))
			return 0
		}
		return time.Duration(v * 1000)
	}
	p := Profile{
		Name: f.Name, Base: us("base_us", f.Base), Slope: us("slope_us", f.Slope), KVToken: f.KVToken, Pair: f.Pair,
		KVTokens: f.KVTokens, BlockSize: f.BlockSize, MaxBatchedTokens: f.MaxBatchedTokens, MaxSeqs: f.MaxSeqs,
		AdapterDisk: us("adapter_disk_us", f.AdapterDisk), AdapterCopy: us("adapter_copy_us", f.AdapterCopy),
	}
	for i, pt := range f.Linear {
		at := fmt.Sprintf("linear_us[%d]", i)
		if n := pt[0]; !(n >= 1 && n <= 1<<24) || n != float64(int(n)) {
			bad = errors.Join(bad, fmt.Errorf("sim: profile %q: %s has %v tokens, want a whole number from 1 to 2^24", f.Name, at, n))
			continue
		}
		p.Linear = append(p.Linear, Point{int(pt[0]), us(at, pt[1])})
	}
	if f.KVToken > 1e12 || f.Pair > 1e12 {
		bad = errors.Join(bad, fmt.Errorf("sim: profile %q: kv_token_ps or pair_ps is above 10^12", f.Name))
	}
	p = p.withDefaults()
	if err := errors.Join(bad, p.Validate()); err != nil {
		return Profile{}, err
	}
	return p, nil
}
