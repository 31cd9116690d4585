package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/expediterhq/expediter/sim/fleet"
)

// decode reads one JSON object into v, and nothing else.
func decode(line string, v any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(line)))
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is more behind the object")
	}
	return nil
}

// native is the package's own format.
type native struct{ simple }

type nativeRow struct {
	T         *float64 `json:"t"`
	Tenant    string   `json:"tenant,omitempty"`
	Adapter   string   `json:"adapter,omitempty"`
	Prompt    int      `json:"prompt"`
	Output    int      `json:"output"`
	MaxTokens int      `json:"max_tokens,omitempty"`
	Content   []uint64 `json:"content,omitempty"`
	After     int      `json:"after,omitempty"`
}

func (native) row(line string) (fleet.Request, error) {
	var n nativeRow
	if err := decode(line, &n); err != nil {
		return fleet.Request{}, err
	}
	if n.T == nil {
		return fleet.Request{}, errors.New("t is missing")
	}
	at, err := seconds(*n.T)
	return fleet.Request{
		At: at, After: n.After, Tenant: n.Tenant, Adapter: n.Adapter,
		Prompt: n.Prompt, Output: n.Output, MaxTokens: n.MaxTokens, Content: n.Content,
	}, err
}

// Write writes a trace in the native format.
func Write(w io.Writer, t *fleet.Trace) error {
	bw := bufio.NewWriter(w)
	enc := json.NewEncoder(bw)
	if t.Block != 0 {
		fmt.Fprintf(bw, "{\"block\":%d}\n", t.Block)
	}
	for i := range t.Requests {
		r := &t.Requests[i]
		s := r.At.Seconds()
		if err := enc.Encode(nativeRow{
			T: &s, Tenant: r.Tenant, Adapter: r.Adapter, Prompt: r.Prompt, Output: r.Output,
			MaxTokens: r.MaxTokens, Content: r.Content, After: r.After,
		}); err != nil {
			return err
		}
	}
	return bw.Flush()
}

// mooncake is the format of Mooncake's published traces.
type mooncake struct{ simple }

func (mooncake) row(line string) (fleet.Request, error) {
	var m struct {
		Timestamp *float64 `json:"timestamp"`
		Input     int      `json:"input_length"`
		Output    int      `json:"output_length"`
		Hashes    []uint64 `json:"hash_ids"`
	}
	if err := decode(line, &m); err != nil {
		return fleet.Request{}, err
	}
	if m.Timestamp == nil {
		return fleet.Request{}, errors.New("timestamp is missing")
	}
	at, err := seconds(*m.Timestamp / 1000)
	return fleet.Request{At: at, Prompt: m.Input, Output: m.Output, Content: m.Hashes}, err
}

// finish spreads requests of one timestamp evenly up to the next.
func (mooncake) finish(p *parser) {
	rs := p.out.Requests
	step := 3 * time.Second // of the last ones, which have no next
	for i := 0; i < len(rs); {
		end := i
		for end < len(rs) && rs[end].At == rs[i].At {
			end++
		}
		if end < len(rs) {
			step = rs[end].At - rs[i].At
		}
		for k := i; k < end; k++ {
			rs[k].At += step * time.Duration(k-i) / time.Duration(end-i)
		}
		i = end
	}
}
