package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// maxFile is the longest registry file that is read, in bytes.
const maxFile = 16 << 20

// FileConfig says where a File reads its pools.
type FileConfig struct {
	Path     string        // must be set
	Interval time.Duration // between looks at the file. If zero, 2 s
	// OnError is called for every look that failed, from Run. The pools stay
	// as they were. If nil, failures are not told.
	OnError func(error)
}

// File is a Registry kept in a JSON file, see [ParsePools], that is read again
// when it changes. Pools and replicas that did not change keep their ledgers,
// as with [Static.Replace]. Use OpenFile, and Run to follow changes.
type File struct {
	*Static
	cfg  FileConfig
	last []byte
}

// OpenFile reads the file and returns its registry.
func OpenFile(cfg FileConfig) (*File, error) {
	if cfg.Interval < 0 {
		return nil, fmt.Errorf("registry: file: interval: expected 0 or more, got %v", cfg.Interval)
	}
	if cfg.Interval == 0 {
		cfg.Interval = 2 * time.Second
	}
	data, err := readFile(cfg.Path)
	if err != nil {
		return nil, err
	}
	pools, err := ParsePools(data)
	if err != nil {
		return nil, fmt.Errorf("registry: file %s: %w", cfg.Path, err)
	}
	s, err := NewStatic(pools...)
	if err != nil {
		return nil, fmt.Errorf("registry: file %s: %w", cfg.Path, err)
	}
	return &File{Static: s, cfg: cfg, last: data}, nil
}

// Run follows changes of the file until ctx ends. It is called once.
func (f *File) Run(ctx context.Context) error {
	tick := time.NewTicker(f.cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := f.look(); err != nil && f.cfg.OnError != nil {
				f.cfg.OnError(err)
			}
		}
	}
}

// look reads the file and takes it over if it is valid and not the last one.
// The whole content is compared: a time stamp may not change with it, and
// behind a Kubernetes mount the file is a link that does.
func (f *File) look() error {
	data, err := readFile(f.cfg.Path)
	if err != nil || bytes.Equal(data, f.last) {
		return err
	}
	pools, err := ParsePools(data)
	if err == nil {
		err = f.Replace(pools...)
	}
	if err != nil {
		return fmt.Errorf("registry: file %s: %w", f.cfg.Path, err)
	}
	f.last = data
	return nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("registry: file %s: expected at most %d bytes", path, maxFile)
	}
	return data, nil
}

// filePool is a pool as a registry file has it.
type filePool struct {
	Name        string        `json:"name"`
	Headroom    float64       `json:"headroom"`
	KVTokens    int           `json:"kv_tokens"`
	BlockSize   int           `json:"block_size"`
	StaleAfter  fileDuration  `json:"stale_after"`
	PrefillRate float64       `json:"prefill_rate"`
	StepTime    fileDuration  `json:"step_time"`
	MaxLoRA     int           `json:"max_lora"`
	AdapterLoad fileDuration  `json:"adapter_load"`
	Replicas    []fileReplica `json:"replicas"`
}

type fileReplica struct {
	Name   string  `json:"name"`
	URL    string  `json:"url"`
	Zone   string  `json:"zone"`
	Weight float64 `json:"weight"`
}

// fileDuration is a duration written as in "1.5s".
type fileDuration time.Duration

func (d *fileDuration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf(`expected a duration like "5s", got %s`, b)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf(`expected a duration like "5s", got %q`, s)
	}
	*d = fileDuration(v)
	return nil
}

// ParsePools reads pools from JSON:
//
//	{"pools": [{
//	  "name": "llama-8b",
//	  "headroom": 0.15, "kv_tokens": 420992, "block_size": 16, "stale_after": "5s",
//	  "prefill_rate": 15000, "step_time": "20ms", "max_lora": 8, "adapter_load": "300ms",
//	  "replicas": [{"name": "gpu-0", "url": "http://10.0.0.1:8000", "zone": "a", "weight": 1}]
//	}]}
//
// where of a pool only the name and of a replica only the url must be given.
// A field that is not known is an error. All mistakes in the values are
// reported at once.
func ParsePools(data []byte) ([]*Pool, error) {
	var doc struct {
		Pools []filePool `json:"pools"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("near line %d: %w", lineOf(data, dec.InputOffset(), err), err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("expected nothing after the closing brace")
	}
	var errs []error
	pools := make([]*Pool, 0, len(doc.Pools))
	for _, fp := range doc.Pools {
		p, err := fp.pool()
		errs = append(errs, err)
		pools = append(pools, p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return pools, distinct(pools)
}

// lineOf returns the line in data where err occurred, if err knows, or else
// that of offset.
func lineOf(data []byte, offset int64, err error) int {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}

func (fp *filePool) pool() (*Pool, error) {
	p, err := NewPool(PoolConfig{
		Name: fp.Name, Headroom: fp.Headroom, KVTokens: fp.KVTokens, BlockSize: fp.BlockSize,
		StaleAfter: time.Duration(fp.StaleAfter), PrefillRate: fp.PrefillRate,
		StepTime: time.Duration(fp.StepTime), MaxLoRA: fp.MaxLoRA,
		AdapterLoad: time.Duration(fp.AdapterLoad),
	})
	errs := []error{err}
	if err != nil { // the replicas are checked all the same
		p, _ = NewPool(PoolConfig{Name: cmp.Or(fp.Name, "?")})
	}
	for _, fr := range fp.Replicas {
		_, err := p.Add(ReplicaConfig(fr))
		errs = append(errs, err)
	}
	return p, errors.Join(errs...)
}
