package tenant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// maxFile bounds a file of tenants, in bytes.
const maxFile = 64 << 20

// file is the JSON form that ParseFile reads.
type file struct {
	Tenants []fileTenant `json:"tenants"`
}

// fileTenant is one tenant of a file.
type fileTenant struct {
	ID     string    `json:"id"`
	Tier   int       `json:"tier"`
	Weight float64   `json:"weight"`
	Limit  fileLimit `json:"limit"`
	Price  struct {
		Input  int64 `json:"input"`
		Output int64 `json:"output"`
	} `json:"price"`
	Models           []string     `json:"models"`
	TTFT             fileDuration `json:"ttft"`
	TPOT             fileDuration `json:"tpot"`
	IsolatePrefix    bool         `json:"isolate_prefix"`
	MaxTokens        int          `json:"max_tokens"`
	DefaultMaxTokens int          `json:"default_max_tokens"`
	AllowFields      []string     `json:"allow_fields"`
	Disabled         bool         `json:"disabled"`
	Keys             []fileKey    `json:"keys"`
}

// fileLimit is the limit of a fileTenant.
type fileLimit struct {
	Concurrency int          `json:"concurrency"`
	Windows     []fileWindow `json:"windows"`
}

// fileWindow is one window of a fileLimit.
type fileWindow struct {
	Name   string       `json:"name"`
	Tokens int64        `json:"tokens"`
	Per    fileDuration `json:"per"`
	Burst  *int64       `json:"burst"`
}

// fileKey is one key of a fileTenant.
type fileKey struct {
	Digest  string    `json:"digest"`
	Name    string    `json:"name"`
	Expires time.Time `json:"expires"`
}

// fileDuration is a time.Duration written as a string such as "1m30s".
type fileDuration time.Duration

// UnmarshalText parses what time.ParseDuration accepts.
func (d *fileDuration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = fileDuration(v)
	return err
}

// ParseFile reads tenants and their keys from JSON and returns the keys for
// NewKeys or Replace:
//
//	{"tenants": [{
//	  "id": "acme", "tier": 0, "weight": 2,
//	  "price": {"input": 1, "output": 3},
//	  "limit": {"concurrency": 64, "windows": [
//	    {"name": "minute", "tokens": 200000, "per": "1m", "burst": 400000},
//	    {"name": "day", "tokens": 50000000, "per": "24h"}]},
//	  "models": ["llama", "llama-sql"],
//	  "ttft": "500ms", "tpot": "50ms",
//	  "isolate_prefix": true, "max_tokens": 4096, "default_max_tokens": 512,
//	  "allow_fields": ["priority"], "disabled": false,
//	  "keys": [{"digest": "9f86d0…", "name": "ci", "expires": "2027-01-01T00:00:00Z"}]
//	}]}
//
// Only id is required. A window refills tokens (priced ones) every per and
// holds at most burst; if burst is absent, tokens. Unknown fields are refused.
//
// All mistakes in its tenants are returned, joined; errors show no digest.
func ParseFile(data []byte) ([]Key, error) {
	var f file
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("tenant: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("tenant: want one JSON object and nothing after it")
	}
	if f.Tenants == nil {
		// An empty object is more likely an accident than the wish to revoke
		// every key.
		return nil, errors.New(`tenant: "tenants" is missing; to have none, write []`)
	}
	var keys []Key
	var errs []error
	ids := make(map[string]int)
	for i := range f.Tenants {
		ft := &f.Tenants[i]
		t, err := ft.tenant()
		err = errors.Join(err, t.Validate())
		if first, dup := ids[t.ID]; dup {
			err = errors.Join(err, &FieldError{Field: "ID", Want: fmt.Sprintf("%q is that of tenants[%d] too", t.ID, first)})
		}
		ids[t.ID] = i
		if err != nil {
			errs = append(errs, fmt.Errorf("tenant: tenants[%d]: %w", i, err))
		}
		for _, k := range ft.Keys {
			keys = append(keys, Key{Digest: k.Digest, Tenant: t, Expires: k.Expires, Name: k.Name})
		}
	}
	return keys, errors.Join(errs...)
}

func (ft *fileTenant) tenant() (*Tenant, error) {
	var errs []error
	t := &Tenant{
		ID: ft.ID, Tier: ft.Tier, Weight: ft.Weight,
		Limit:  quota.Limit{Concurrency: ft.Limit.Concurrency},
		Price:  Price{Input: ft.Price.Input, Output: ft.Price.Output},
		Models: ft.Models, TTFT: time.Duration(ft.TTFT), TPOT: time.Duration(ft.TPOT),
		IsolatePrefix: ft.IsolatePrefix, MaxTokens: ft.MaxTokens, DefaultMaxTokens: ft.DefaultMaxTokens,
		AllowFields: ft.AllowFields, Disabled: ft.Disabled,
	}
	for i, w := range ft.Limit.Windows {
		if w.Per <= 0 {
			errs = append(errs, &FieldError{
				Field: fmt.Sprintf("Limit.Windows[%d].Per", i), Want: `want a time above zero, such as "1m"`})
			w.Per = fileDuration(time.Second)
		}
		burst := w.Tokens
		if w.Burst != nil {
			burst = *w.Burst
		}
		t.Limit.Windows = append(t.Limit.Windows, quota.Window{
			Name: w.Name, Rate: float64(w.Tokens) / time.Duration(w.Per).Seconds(), Burst: burst})
	}
	return t, errors.Join(errs...)
}

// Load returns a Keys holding what the file at path says, in the form that
// ParseFile reads. Watch follows later changes of the file.
func Load(path string, cfg Config) (*Keys, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	keys, err := ParseFile(data)
	if err != nil {
		return nil, err
	}
	return NewKeys(keys, cfg)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tenant: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("tenant: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("tenant: %s is larger than %d bytes", path, maxFile)
	}
	return data, nil
}
